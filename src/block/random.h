// Counter-based random numbers: every value is a function of (seed, stream, index), in any order, on any
// number of threads, in any program that has Philox4x32-10 (Salmon et al., SC'11; NumPy, cuRAND, Random123).
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

namespace fusetune::block {

/// Streams, the `tensor id` of block.md: hidden is 0, then the weights and parameters in table order.
enum class Stream : std::uint32_t {
  hidden = 0,
  weights = 1,           // + Weight: 1..4
  parameters = 5,        // + Parameter: 5..12
  padding_lengths = 64,  // index = batch entry
  random_blocks = 65,    // index = query block
};

/// The four words of Philox4x32-10 under
///   key     = {seed low 32 bits, seed high 32 bits}
///   counter = {index low 32 bits, index high 32 bits, stream, extra}.
std::array<std::uint32_t, 4> philox(std::uint64_t seed, std::uint32_t stream, std::uint64_t index,
                                    std::uint32_t extra = 0);

/// [0, 1) in steps of 2^-24.
inline double to_unit(std::uint32_t word) { return static_cast<double>(word >> 8) * 0x1p-24; }

/// [0, bound) by multiplication: floor(word * bound / 2^32). The bias is below bound / 2^32.
inline std::uint32_t to_below(std::uint32_t word, std::uint32_t bound) {
  return static_cast<std::uint32_t>((std::uint64_t{word} * bound) >> 32);
}

/// Two standard normals from two words by Box-Muller: r * {cos a, sin a} with
/// r = sqrt(-2 ln(1 - unit(first))), a = 2 pi unit(second); 1 - unit is in (0, 1], so r is finite.
inline std::array<double, 2> to_normals(std::uint32_t first, std::uint32_t second) {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - to_unit(first)));
  const double angle = 6.283185307179586476925286766559 * to_unit(second);
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

}  // namespace fusetune::block
