#include "block/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "block/rounding.h"

namespace fusetune::block {
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "files are read and written in host order");

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kMostHeaderBytes = 100'000'000;  // the format's own limit
constexpr std::string_view kMetadata = "__metadata__";

[[noreturn]] void fail(const std::filesystem::path& file, std::string_view reason) {
  throw base::UsageError(
      fmt::format("reading {}: not a usable .safetensors file: {}", file.string(), reason));
}

/// Bytes of one element, 0 for dtypes that are not read here.
std::uint64_t element_bytes(std::string_view dtype) {
  if (dtype == "F32") return 4;
  if (dtype == "F16" || dtype == "BF16") return 2;
  return 0;
}

std::string read_range(const std::filesystem::path& file, std::uint64_t begin, std::uint64_t end) {
  std::ifstream stream(file, std::ios::binary);
  std::string bytes(end - begin, '\0');
  stream.seekg(static_cast<std::streamoff>(begin));
  stream.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!stream) {
    throw base::EnvironmentError(
        fmt::format("reading {}: bytes {} to {} cannot be read", file.string(), begin, end));
  }
  return bytes;
}

std::uint64_t size_of_file(const std::filesystem::path& file) {
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(file, error);
  if (error) throw base::UsageError(fmt::format("reading {}: {}", file.string(), error.message()));
  return size;
}

SafetensorsEntry parse_entry(const std::filesystem::path& file, const std::string& name, const json& value,
                             std::uint64_t data_begin, std::uint64_t file_end) {
  const auto is_size = [](const json& item) {
    return item.is_number_unsigned() && item.get<std::uint64_t>() <= INT64_MAX;
  };
  const auto is_sizes = [&](const char* key) {
    return value.contains(key) && value[key].is_array() &&
           std::all_of(value[key].begin(), value[key].end(), is_size);
  };
  if (!value.is_object() || !value.contains("dtype") || !value["dtype"].is_string() || !is_sizes("shape") ||
      !is_sizes("data_offsets") || value["data_offsets"].size() != 2) {
    fail(file, fmt::format("the header's entry '{}' lacks a well-formed dtype, shape or data_offsets", name));
  }
  SafetensorsEntry entry{value["dtype"], value["shape"], 0, 0};
  const std::uint64_t begin = value["data_offsets"][0], end = value["data_offsets"][1];
  if (begin > end || end > file_end - data_begin) {
    fail(file, fmt::format("tensor '{}' lies at bytes {} to {} of {} bytes of data (truncated?)", name, begin,
                           end, file_end - data_begin));
  }
  entry.begin = data_begin + begin;
  entry.end = data_begin + end;
  std::uint64_t bytes = element_bytes(entry.dtype);
  if (bytes == 0) return entry;
  bool overflow = false;
  for (const std::int64_t size : entry.shape) {
    overflow = overflow || __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(size), &bytes);
  }
  if (overflow || bytes != end - begin) {
    fail(file, fmt::format("tensor '{}': {} of shape ({}) does not fill {} bytes", name, entry.dtype,
                           fmt::join(entry.shape, ", "), end - begin));
  }
  return entry;
}

void check_disjoint(const std::filesystem::path& file,
                    const std::map<std::string, SafetensorsEntry>& entries) {
  std::vector<const std::pair<const std::string, SafetensorsEntry>*> sorted;
  for (const auto& entry : entries) sorted.push_back(&entry);
  std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) {
    return std::pair(a->second.begin, a->second.end) < std::pair(b->second.begin, b->second.end);
  });
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    if (sorted[i]->second.begin < sorted[i - 1]->second.end) {
      fail(file, fmt::format("tensors '{}' and '{}' overlap", sorted[i - 1]->first, sorted[i]->first));
    }
  }
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& file) : file_(file) {
  const std::uint64_t size = size_of_file(file);
  if (size < kLengthBytes) fail(file, "it is shorter than the header's length field");
  std::uint64_t length = 0;
  std::memcpy(&length, read_range(file, 0, kLengthBytes).data(), kLengthBytes);
  if (length > size - kLengthBytes || length > kMostHeaderBytes) {
    fail(file, fmt::format("a header of {} bytes does not fit a file of {} bytes", length, size));
  }
  const std::uint64_t data_begin = kLengthBytes + length;
  const json header =
      json::parse(read_range(file, kLengthBytes, data_begin), nullptr, /*allow_exceptions=*/false);
  if (!header.is_object()) fail(file, "the header is not a JSON object");
  for (const auto& [name, value] : header.items()) {
    if (name != kMetadata) entries_.emplace(name, parse_entry(file, name, value, data_begin, size));
  }
  check_disjoint(file, entries_);
}

std::vector<float> SafetensorsFile::read(const std::string& name, std::span<const std::int64_t> shape) const {
  const auto found = entries_.find(name);
  if (found == entries_.end())
    throw base::UsageError(fmt::format("{} has no tensor '{}'", file_.string(), name));
  const SafetensorsEntry& entry = found->second;
  if (!std::equal(shape.begin(), shape.end(), entry.shape.begin(), entry.shape.end())) {
    throw base::UsageError(fmt::format("{}: tensor '{}' has shape ({}); this problem needs ({})",
                                       file_.string(), name, fmt::join(entry.shape, ", "),
                                       fmt::join(shape, ", ")));
  }
  const std::uint64_t bytes = element_bytes(entry.dtype);
  if (bytes == 0) {
    throw base::UsageError(
        fmt::format("{}: tensor '{}' is {}; F32, F16 and BF16 are read", file_.string(), name, entry.dtype));
  }
  const std::string raw = read_range(file_, entry.begin, entry.end);
  std::vector<float> values(raw.size() / bytes);
  if (bytes == 4) {
    std::copy_n(raw.data(), raw.size(), reinterpret_cast<char*>(values.data()));
    return values;
  }
  const auto convert = entry.dtype == "F16" ? from_f16 : from_bf16;
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, raw.data() + 2 * i, 2);
    values[i] = convert(bits);
  }
  return values;
}

void write_safetensors(const std::filesystem::path& file, std::span<const SafetensorsTensor> tensors) {
  json header = json::object();
  std::uint64_t offset = 0;
  for (const SafetensorsTensor& tensor : tensors) {
    const std::uint64_t end = offset + tensor.values.size() * sizeof(float);
    header[tensor.name] = {{"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');  // the data starts 8-byte aligned
  const std::uint64_t length = text.size();
  std::string bytes(reinterpret_cast<const char*>(&length), kLengthBytes);
  bytes += text;
  for (const SafetensorsTensor& tensor : tensors) {
    bytes.append(reinterpret_cast<const char*>(tensor.values.data()), tensor.values.size() * sizeof(float));
  }
  base::write_file_atomic(file, bytes);
}

}  // namespace fusetune::block
