// The safetensors format: 8 bytes of header length, a JSON header, then the tensors' bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fusetune::block {

/// One entry of the header; offsets are bytes from the beginning of the file.
struct SafetensorsEntry {
  std::string dtype;  // "F32", "F16", "BF16", or one that read() refuses
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

/// An opened file: the header is read and checked at once, tensors when asked for.
class SafetensorsFile {
 public:
  /// Throws base::UsageError naming the file and what is wrong with its header: a length past the end of
  /// the file, malformed JSON, offsets outside the file, overlapping tensors, sizes that do not match.
  explicit SafetensorsFile(const std::filesystem::path& file);

  const std::filesystem::path& path() const { return file_; }
  const std::map<std::string, SafetensorsEntry>& entries() const { return entries_; }

  /// The values of a tensor as float32, exactly. Throws base::UsageError for a missing name, a dtype other
  /// than F32, F16 and BF16, or another shape than `shape`.
  std::vector<float> read(const std::string& name, std::span<const std::int64_t> shape) const;

 private:
  std::filesystem::path file_;
  std::map<std::string, SafetensorsEntry> entries_;
};

/// A float32 tensor to write; `values` is row-major.
struct SafetensorsTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};

/// Writes F32 tensors, whole file or none. Throws base::EnvironmentError.
void write_safetensors(const std::filesystem::path& file, std::span<const SafetensorsTensor> tensors);

}  // namespace fusetune::block
