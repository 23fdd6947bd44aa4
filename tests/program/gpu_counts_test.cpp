// Bank conflicts of the building blocks, as the emulator counts them.
#include <gtest/gtest.h>

#include "program/gpu_kernels.h"

namespace fusetune::gpu_test {
namespace {

using backend::simt::LaunchCounts;
using block::Dtype;

struct Counted {
  const char* name;
  Case where;
  plan::SegmentVariant variant;
  const char* schedule;
};
void PrintTo(const Counted& counted, std::ostream* out) { *out << counted.name; }

LaunchCounts counts_of(const Counted& counted) {
  const block::Problem problem = counted.where.problem();
  const auto kernels = compile({codegen::generate_gpu(
      counted.variant,
      lower::canonical(lower::GpuSchedule::parse(counted.schedule), counted.variant, problem), problem,
      small_gpu())});
  LaunchCounts counts;
  measure::EmulationOptions options;
  options.mode = backend::simt::Mode::checked;
  options.run.counts = &counts;
  measure::Emulation emulation(problem, counted.where.data(), options);
  for (const auto& kernel : kernels) EXPECT_EQ(emulation.check_segment(kernel).message, "");
  return counts;
}

constexpr plan::SegmentVariant variant(int first, int last) { return {{first, last}, false}; }
constexpr plan::SegmentVariant kAttention{{2, 6}, true};

/// Rows of 3, 5, 6 and 8 times 16 bytes; tiles of every depth.
Case sized(Dtype dtype, std::int64_t head_size) {
  return {.dtype = dtype, .seq = 70, .heads = 1, .head_size = head_size, .ffn = 136, .batch = 1};
}

const Counted kReads[] = {
    {"gemm_f16_x16", sized(Dtype::f16, 64), variant(12, 12), "warps=4 tile=64x64x16"},
    {"gemm_f16_x32", sized(Dtype::f16, 64), variant(12, 12), "warps=4 tile=64x64x32"},
    {"gemm_f16_x64", sized(Dtype::f16, 64), variant(12, 12), "warps=4 tile=64x64x64"},
    {"gemm_f32_x16", sized(Dtype::f32, 64), variant(12, 12), "warps=4 tile=64x64x16"},
    {"gemm_f32_x32", sized(Dtype::f32, 64), variant(12, 12), "warps=4 tile=32x64x32"},
    {"rows_f16", sized(Dtype::f16, 64), variant(7, 14), "handoff=pipeline warps=2 tile=64x64x32 ffn=64"},
    {"rows_f32", sized(Dtype::f32, 40), variant(7, 14), "handoff=pipeline warps=2 tile=64x64x16 ffn=64"},
    {"scores_f16_40", sized(Dtype::f16, 40), variant(2, 6), "warps=4 query=32"},
    {"scores_f32_64", sized(Dtype::f32, 64), variant(2, 6), "warps=4 query=32"},
    {"online_bf16_32", sized(Dtype::bf16, 32), kAttention, "warps=4 query=64"},
    {"online_f16_40", sized(Dtype::f16, 40), kAttention, "warps=4 query=64"},
    {"online_f16_80", sized(Dtype::f16, 80), kAttention, "warps=4 query=64"},
    {"online_f32_48", sized(Dtype::f32, 48), kAttention, "warps=2 query=32"},
};

class GpuReads : public testing::TestWithParam<Counted> {};

TEST_P(GpuReads, HaveNoBankConflicts) {
  const LaunchCounts counts = counts_of(GetParam());
  const bool multiplies_floats = GetParam().where.dtype == Dtype::f32;
  EXPECT_GT(multiplies_floats ? counts.loads.accesses : counts.matrix_loads.accesses, 0);
  EXPECT_EQ(counts.matrix_loads.conflicts, 0);
  EXPECT_EQ(counts.loads.conflicts, 0);
  // float32 activations are stored in pairs into rows that are padded for reads of four.
  if (GetParam().variant != variant(7, 14) || GetParam().where.dtype != Dtype::f32) {
    EXPECT_EQ(counts.stores.conflicts, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Blocks, GpuReads, testing::ValuesIn(kReads),
                         [](const auto& info) { return std::string(info.param.name); });

/// docs/gpu.md has these figures. Of a step's two tiles the one of A has rows of Depth.
TEST(GpuFills, TakeASecondPassWhereRowsAreNoMultipleOf128Bytes) {
  Counted counted{"",
                  {.dtype = Dtype::f16, .seq = 64, .heads = 1, .head_size = 64, .ffn = 128, .batch = 1},
                  variant(12, 12),
                  "warps=4 tile=64x64x64"};
  const LaunchCounts wide = counts_of(counted);
  counted.schedule = "warps=4 tile=64x64x32";
  const LaunchCounts narrow = counts_of(counted);
  // 128 of k by 64 rows and 64 columns, 16 bytes a lane: 64 copies of warps, of four passes each.
  EXPECT_EQ(wide.copies.accesses, 64);
  EXPECT_EQ(wide.copies.conflicts, 0);
  EXPECT_EQ(narrow.copies.accesses, 64);
  EXPECT_EQ(narrow.copies.conflicts, 128);
  EXPECT_EQ(narrow.matrix_loads.accesses, wide.matrix_loads.accesses);
  EXPECT_EQ(wide.matrix_loads.accesses, 4 * 8 * 4);  // warps, steps of 16, two each of A and B
}

}  // namespace
}  // namespace fusetune::gpu_test
