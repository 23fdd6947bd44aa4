// NumPy's .npy files: little endian, C order, header versions 1 to 3.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace fusetune::block {

template <typename Value>
struct NpyArray {
  std::vector<std::int64_t> shape;  // empty: a scalar
  std::vector<Value> values;        // row-major
};

/// Reads a float32 ("<f4") or float64 ("<f8", rounded to float32) array. Throws base::UsageError naming
/// the file and what is wrong with it: truncated, trailing bytes, Fortran order, another dtype, ... That is
/// found before the data are read: neither a device without end nor a large file of something else fills
/// the memory.
NpyArray<float> read_npy_floats(const std::filesystem::path& file);

/// Reads a boolean ("|b1") or unsigned byte ("|u1") array as 0 and 1 (any other byte is refused).
NpyArray<std::uint8_t> read_npy_booleans(const std::filesystem::path& file);

/// The shape of such a file, without reading its data: throws as read_npy_booleans() does where the file's
/// size is not what the shape asks for.
std::vector<std::int64_t> npy_booleans_shape(const std::filesystem::path& file);

/// Writes version 1.0 files, whole or not at all. Throws base::InternalError where the shape does not
/// match the number of values, base::EnvironmentError where the file cannot be written.
void write_npy(const std::filesystem::path& file, std::span<const std::int64_t> shape,
               std::span<const float> values);
void write_npy(const std::filesystem::path& file, std::span<const std::int64_t> shape,
               std::span<const double> values);
/// As booleans.
void write_npy(const std::filesystem::path& file, std::span<const std::int64_t> shape,
               std::span<const std::uint8_t> values);

}  // namespace fusetune::block
