#include "block/npy.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <tuple>

#include "base/error.h"
#include "base/file.h"
#include "base/number.h"
#include "base/text.h"

namespace fusetune::block {
namespace {

static_assert(std::endian::native == std::endian::little, "files are read and written in host order");

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kPreambleV1 = 10;              // magic, major, minor, 2-byte header length
constexpr std::size_t kPreambleV2 = 12;              // versions 2 and 3 have a 4-byte header length
constexpr std::uint64_t kMostHeaderBytes = 1 << 20;  // far more than a dtype and a shape need

struct Header {
  std::string descr;
  std::optional<bool> fortran_order;
  std::optional<std::vector<std::int64_t>> shape;
};

[[noreturn]] void fail(const std::filesystem::path& file, std::string_view reason) {
  throw base::UsageError(fmt::format("reading {}: not a usable .npy file: {}", file.string(), reason));
}

/// Reader of the Python dictionary literal in a header, e.g.
/// {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
class DictReader {
 public:
  DictReader(std::string_view text, const std::filesystem::path& file) : text_(text), file_(file) {}

  Header read() {
    Header header;
    expect('{');
    while (!accept('}')) {
      const std::string key = read_string();
      expect(':');
      if (key == "descr") {
        header.descr = read_string();
      } else if (key == "fortran_order") {
        header.fortran_order = read_bool();
      } else if (key == "shape") {
        header.shape = read_tuple();
      } else {
        fail(file_, fmt::format("unknown header key '{}'", key));
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (position_ != text_.size()) fail(file_, "text after the header's dictionary");
    return header;
  }

 private:
  void skip_space() {
    while (position_ < text_.size() && (text_[position_] == ' ' || text_[position_] == '\n')) ++position_;
  }
  bool accept(char wanted) {
    skip_space();
    if (position_ >= text_.size() || text_[position_] != wanted) return false;
    ++position_;
    return true;
  }
  void expect(char wanted) {
    if (!accept(wanted))
      fail(file_, fmt::format("malformed header: expected '{}' at byte {}", wanted, position_));
  }
  std::string read_string() {
    skip_space();
    const char quote = accept('"') ? '"' : '\'';
    if (quote == '\'') expect('\'');
    const std::size_t end = text_.find(quote, position_);
    if (end == std::string_view::npos) fail(file_, "malformed header: unfinished string");
    std::string value(text_.substr(position_, end - position_));
    position_ = end + 1;
    return value;
  }
  bool read_bool() {
    skip_space();
    for (const bool value : {false, true}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(position_, word.size()) != word) continue;
      position_ += word.size();
      return value;
    }
    fail(file_, "malformed header: fortran_order is neither True nor False");
  }
  std::vector<std::int64_t> read_tuple() {
    std::vector<std::int64_t> values;
    expect('(');
    while (!accept(')')) {
      skip_space();
      const std::size_t end = text_.find_first_not_of("0123456789", position_);
      const auto value = base::parse_int(text_.substr(position_, end - position_));
      if (!value) fail(file_, "malformed header: shape holds something that is not a size");
      values.push_back(*value);
      position_ = std::min(end, text_.size());
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return values;
  }

  std::string_view text_;
  const std::filesystem::path& file_;
  std::size_t position_ = 0;
};

/// A file whose header has been read.
struct OpenedNpy {
  Header header;
  std::uint64_t data_at = 0, data_bytes = 0;
};

/// The header and where the data begin, from the file's first bytes.
std::pair<Header, std::size_t> parse(std::string_view bytes, const std::filesystem::path& file) {
  if (bytes.size() < kPreambleV1 || bytes.substr(0, kMagic.size()) != kMagic)
    fail(file, "it lacks the .npy signature");
  const int major = static_cast<unsigned char>(bytes[6]);
  if (major < 1 || major > 3)
    fail(file, fmt::format("header version {} is unknown (1 to 3 are known)", major));
  const std::size_t preamble = major == 1 ? kPreambleV1 : kPreambleV2;
  if (bytes.size() < preamble) fail(file, "truncated in the header");
  std::uint32_t length = 0;
  std::memcpy(&length, bytes.data() + 8, preamble - 8);
  if (bytes.size() - preamble < length) fail(file, "truncated in the header");
  Header header = DictReader(bytes.substr(preamble, length), file).read();
  if (header.descr.empty() || !header.fortran_order || !header.shape) {
    fail(file, "the header lacks descr, fortran_order or shape");
  }
  return {std::move(header), preamble + length};
}

OpenedNpy open_npy(const std::filesystem::path& file) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(file, error);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    fail(file, "it is a directory, a device or a pipe");
  std::ifstream stream(file, std::ios::binary);
  const std::uint64_t size = stream ? std::filesystem::file_size(file, error) : 0;
  if (!stream || error) {
    base::read_file(file);  // throws, and says why
    fail(file, "it changed while it was opened");
  }
  std::string bytes(std::min<std::uint64_t>(size, kMostHeaderBytes), '\0');
  stream.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<std::size_t>(stream.gcount()));
  OpenedNpy opened;
  std::tie(opened.header, opened.data_at) = parse(bytes, file);
  opened.data_bytes = size - std::min(size, opened.data_at);
  return opened;
}

/// Number of elements; refuses Fortran order and a payload of another length.
std::size_t check_payload(const OpenedNpy& opened, std::size_t element_bytes,
                          const std::filesystem::path& file) {
  const Header& header = opened.header;
  std::size_t count = 1;
  for (const std::int64_t size : *header.shape) {
    if (__builtin_mul_overflow(count, static_cast<std::size_t>(size), &count))
      fail(file, "the shape's product overflows");
  }
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(count, element_bytes, &bytes)) fail(file, "the shape's product overflows");
  if (opened.data_bytes < bytes) {
    fail(file, fmt::format("truncated: shape ({}) needs {} bytes of data, the file has {}",
                           fmt::join(*header.shape, ", "), bytes, opened.data_bytes));
  }
  if (opened.data_bytes > bytes)
    fail(file, fmt::format("{} bytes follow the data", opened.data_bytes - bytes));
  // Order makes no difference to arrays of fewer than two dimensions.
  if (*header.fortran_order && header.shape->size() > 1) {
    fail(file, "it is in Fortran order; write it with numpy.ascontiguousarray");
  }
  return count;
}

template <typename Value>
std::vector<Value> read_values(const OpenedNpy& opened, const std::filesystem::path& file) {
  std::vector<Value> values(check_payload(opened, sizeof(Value), file));
  std::ifstream stream(file, std::ios::binary);
  stream.seekg(static_cast<std::streamoff>(opened.data_at));
  stream.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(opened.data_bytes));
  if (!stream) fail(file, "it changed while it was read");
  return values;
}

void check_boolean(const OpenedNpy& opened, const std::filesystem::path& file) {
  if (opened.header.descr != "|b1" && opened.header.descr != "|u1")
    fail(file, fmt::format("dtype '{}'; expected booleans ('|b1') or bytes ('|u1')", opened.header.descr));
}

template <typename Value>
void write(const std::filesystem::path& file, std::string_view descr, std::span<const std::int64_t> shape,
           std::span<const Value> values) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  if (count != std::ssize(values)) {
    throw base::InternalError(fmt::format("writing {}: shape ({}) does not hold {} values", file.string(),
                                          fmt::join(shape, ", "), values.size()));
  }
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", descr,
                                   fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  // The data starts at a multiple of 64 bytes; the header ends with a line feed.
  header.append(63 - (kPreambleV1 + header.size()) % 64, ' ');
  header += '\n';
  const auto length = static_cast<std::uint16_t>(header.size());
  std::string bytes(kMagic);
  bytes += {'\x01', '\x00', static_cast<char>(length & 0xff), static_cast<char>(length >> 8)};
  bytes += header;
  bytes.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  base::write_file_atomic(file, bytes);
}

}  // namespace

NpyArray<float> read_npy_floats(const std::filesystem::path& file) {
  OpenedNpy opened = open_npy(file);
  NpyArray<float> array;
  if (opened.header.descr == "<f4") {
    array.values = read_values<float>(opened, file);
  } else if (opened.header.descr == "<f8") {
    const auto doubles = read_values<double>(opened, file);
    array.values.assign(doubles.begin(), doubles.end());
  } else {
    fail(file, fmt::format("dtype '{}'; expected float32 ('<f4') or float64 ('<f8')", opened.header.descr));
  }
  array.shape = std::move(*opened.header.shape);
  return array;
}

NpyArray<std::uint8_t> read_npy_booleans(const std::filesystem::path& file) {
  OpenedNpy opened = open_npy(file);
  check_boolean(opened, file);
  NpyArray<std::uint8_t> array;
  array.values = read_values<std::uint8_t>(opened, file);
  for (const std::uint8_t value : array.values) {
    if (value > 1) fail(file, fmt::format("a boolean array holds the byte {}", value));
  }
  array.shape = std::move(*opened.header.shape);
  return array;
}

std::vector<std::int64_t> npy_booleans_shape(const std::filesystem::path& file) {
  OpenedNpy opened = open_npy(file);
  check_boolean(opened, file);
  check_payload(opened, 1, file);
  return std::move(*opened.header.shape);
}

void write_npy(const std::filesystem::path& file, std::span<const std::int64_t> shape,
               std::span<const float> values) {
  write(file, "<f4", shape, values);
}
void write_npy(const std::filesystem::path& file, std::span<const std::int64_t> shape,
               std::span<const double> values) {
  write(file, "<f8", shape, values);
}
void write_npy(const std::filesystem::path& file, std::span<const std::int64_t> shape,
               std::span<const std::uint8_t> values) {
  write(file, "|b1", shape, values);
}

}  // namespace fusetune::block
