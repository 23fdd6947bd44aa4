// What the operations of a whole warp compute, once all its lanes have brought their operands. Pure functions
// of 32 operands; the layouts are PTX's. Internal to the emulator.
#pragma once

#include <array>
#include <cstdint>

namespace fusetune::backend::simt {

/// The operands of each lane, and room for its result.
template <class Operands>
using OfLanes = std::array<Operands*, 32>;

struct ShuffleOperands {
  std::uint32_t value = 0;
  int source = 0;  // the lane whose value is wanted: 0 to 31
  std::uint32_t result = 0;
};
void shuffle(const OfLanes<ShuffleOperands>& lanes);

/// mma.sync.m16n8k16: d[16][8] += a[16][16] b[16][8], products exact, summed in float in order of k.
struct MmaOperands {
  float* d = nullptr;
  const std::uint32_t* a = nullptr;
  std::uint32_t b0 = 0, b1 = 0;
};
enum class HalfFormat { f16, bf16 };
void multiply(const OfLanes<MmaOperands>& lanes, HalfFormat format);

/// ldmatrix.x4: lane 8 i + r has the address of row r of matrix i, 16 bytes.
struct LdmatrixOperands {
  std::uint32_t* r = nullptr;
  const void* row = nullptr;
};
void load_matrices(const OfLanes<LdmatrixOperands>& lanes, bool transposed);

}  // namespace fusetune::backend::simt
