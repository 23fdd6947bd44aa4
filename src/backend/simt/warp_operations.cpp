#include "backend/simt/warp_operations.h"

#include <cstring>

namespace fusetune::backend::simt {
namespace {

using Half = std::uint16_t;
#define FT_ALWAYS_INLINE inline __attribute__((always_inline))

FT_ALWAYS_INLINE float bits_float(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

/// Without branches, so that loops over it become vector code.
FT_ALWAYS_INLINE float f16_to_float(Half half) {
  constexpr std::uint32_t kTwoTo112 = 0x77800000u;
  const std::uint32_t sign = (half & 0x8000u) << 16;
  const std::uint32_t magnitude = (half & 0x7fffu) << 13;
  const float scaled = bits_float(magnitude) * bits_float(kTwoTo112);  // right for subnormals too
  std::uint32_t bits;
  std::memcpy(&bits, &scaled, sizeof(bits));
  return bits_float(sign | (magnitude >= 0x0f800000u ? 0x70000000u | magnitude : bits));
}

FT_ALWAYS_INLINE float to_float(Half half, HalfFormat format) {
  return format == HalfFormat::bf16 ? bits_float(static_cast<std::uint32_t>(half) << 16) : f16_to_float(half);
}

/// Row and column pair of a lane's registers within an 8 x 8 quarter.
struct Position {
  int row, column;
};
FT_ALWAYS_INLINE Position position(int lane) { return {lane >> 2, (lane & 3) * 2}; }

FT_ALWAYS_INLINE void multiply_body(const OfLanes<MmaOperands>& lanes, HalfFormat format) {
  alignas(32) Half a[16][16], b[8][16];  // b by columns
  alignas(32) float a_float[16][16], b_float[16][8], d[16][8];
  for (int lane = 0; lane < 32; ++lane) {
    const MmaOperands& operands = *lanes[static_cast<std::size_t>(lane)];
    const auto [row, column] = position(lane);
    std::memcpy(&a[row][column], &operands.a[0], 4);
    std::memcpy(&a[row + 8][column], &operands.a[1], 4);
    std::memcpy(&a[row][column + 8], &operands.a[2], 4);
    std::memcpy(&a[row + 8][column + 8], &operands.a[3], 4);
    std::memcpy(&b[row][column], &operands.b0, 4);
    std::memcpy(&b[row][column + 8], &operands.b1, 4);
    std::memcpy(&d[row][column], operands.d, 8);
    std::memcpy(&d[row + 8][column], operands.d + 2, 8);
  }
  for (int i = 0; i < 16; ++i) {
    for (int k = 0; k < 16; ++k) a_float[i][k] = to_float(a[i][k], format);
  }
  for (int k = 0; k < 16; ++k) {
    for (int j = 0; j < 8; ++j) b_float[k][j] = to_float(b[j][k], format);
  }
  for (int i = 0; i < 16; ++i) {
    for (int k = 0; k < 16; ++k) {
      for (int j = 0; j < 8; ++j) d[i][j] += a_float[i][k] * b_float[k][j];
    }
  }
  for (int lane = 0; lane < 32; ++lane) {
    const auto [row, column] = position(lane);
    float* const result = lanes[static_cast<std::size_t>(lane)]->d;
    std::memcpy(result, &d[row][column], 8);
    std::memcpy(result + 2, &d[row + 8][column], 8);
  }
}

void multiply_anywhere(const OfLanes<MmaOperands>& lanes, HalfFormat format) { multiply_body(lanes, format); }

#if defined(__x86_64__)
// The products are exact in float, so that a fused multiply-add gives the same sums.
__attribute__((target("avx2,fma"))) void multiply_avx2(const OfLanes<MmaOperands>& lanes, HalfFormat format) {
  if (format == HalfFormat::f16) {
    multiply_body(lanes, HalfFormat::f16);
  } else {
    multiply_body(lanes, HalfFormat::bf16);
  }
}
#endif

}  // namespace

void multiply(const OfLanes<MmaOperands>& lanes, HalfFormat format) {
#if defined(__x86_64__)
  static const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (avx2) {
    multiply_avx2(lanes, format);
    return;
  }
#endif
  multiply_anywhere(lanes, format);
}

void shuffle(const OfLanes<ShuffleOperands>& lanes) {
  for (ShuffleOperands* const lane : lanes) {
    lane->result = lanes[static_cast<std::size_t>(lane->source)]->value;
  }
}

void load_matrices(const OfLanes<LdmatrixOperands>& lanes, bool transposed) {
  Half matrix[4][8][8];
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::size_t row = 0; row < 8; ++row) {
      std::memcpy(matrix[i][row], lanes[8 * i + row]->row, 16);
    }
  }
  for (int lane = 0; lane < 32; ++lane) {
    const auto [row, column] = position(lane);
    for (int i = 0; i < 4; ++i) {
      const Half low = transposed ? matrix[i][column][row] : matrix[i][row][column];
      const Half high = transposed ? matrix[i][column + 1][row] : matrix[i][row][column + 1];
      lanes[static_cast<std::size_t>(lane)]->r[i] = low | static_cast<std::uint32_t>(high) << 16;
    }
  }
}

}  // namespace fusetune::backend::simt
