// Every segment variant in every dtype, run in the emulator's checked mode against the float64 oracle.
//
// Built twice: for tools/test --full with FUSETUNE_CLANG, the compiler to use instead of the default.
// Registers that nothing was written to then hold NaN; GCC leaves a large number, which a product with zero
// hides.
#include <gtest/gtest.h>

#include <string_view>

#include "program/gpu_kernels.h"

namespace fusetune::gpu_test {
namespace {

using block::Dtype;

/// One small odd problem a dtype: padding that hides rows wholly, head sizes that no chunk divides, an inner
/// size and a sequence that no tile divides.
const Case kCases[] = {
    {.dtype = Dtype::f32, .seq = 33, .heads = 2, .head_size = 40, .ffn = 72, .mask = "causal", .logits = 16},
    {.dtype = Dtype::f16,
     .seq = 65,
     .heads = 2,
     .head_size = 32,
     .ffn = 200,
     .mask = "bigbird:global=8,window=8,block=16,random=1",
     .logits = 2},
    {.dtype = Dtype::bf16,
     .seq = 63,
     .heads = 1,
     .head_size = 63,
     .ffn = 75,
     .mask = "sliding:window=5,padding_lengths=40/63",
     .gelu = block::Gelu::tanh},
};

void expect_every_variant_right(const Case& where) {
  const auto kernels = compile(default_kernels(where.problem()));
  ASSERT_EQ(kernels.size(), 147u);
  expect_right(where, kernels);
  expect_plans_right(where, kernels, 30);
}

#ifdef FUSETUNE_CLANG
class GpuKernels : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (std::string_view(FUSETUNE_CLANG).empty())
      GTEST_SKIP() << "no clang++ was found when this was configured";
    kernel_compiler = FUSETUNE_CLANG;
  }
};

TEST_P(GpuKernels, EveryVariantIsRight) { expect_every_variant_right(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Small, GpuKernels, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(block::name(info.param.dtype)); });
#else
// One dtype a day, and another one with other schedules of every second variant: tools/test --full runs all
// (GpuKernels, GpuMatrix and GpuSchedules).

TEST(GpuKernelsOfTheDay, EveryVariantIsRight) {
  expect_every_variant_right(kCases[day_of_sample() % std::size(kCases)]);
}

TEST(GpuKernelsOfTheDay, OtherSchedulesAreRight) {
  const std::size_t day = day_of_sample();
  const Case& where = kCases[(day + 1) % std::size(kCases)];
  const auto others = other_kernels(where.problem(), static_cast<int>(day));
  std::vector<codegen::GpuKernel> sample;
  for (std::size_t i = day % 2; i < others.size(); i += 2) sample.push_back(others[i]);
  const auto kernels = compile(sample);
  EXPECT_GT(kernels.size(), 50u);
  expect_right(where, kernels);
}

/// A row of scores that no shared memory holds: it spills to workspace.
TEST(GpuKernelsOfSizes, LongRowsOfScoresSpill) {
  Case where{.dtype = Dtype::f16, .seq = 450, .heads = 1, .head_size = 16, .ffn = 32, .mask = "causal"};
  const block::Problem problem = where.problem();
  const plan::SegmentVariant variant{{2, 6}, false};
  const auto kernel = codegen::generate_gpu(variant, lower::default_schedule(variant, problem, small_gpu()),
                                            problem, small_gpu());
  ASSERT_GT(kernel.block_scratch_floats, 0);
  expect_right(where, compile({kernel}));
}

/// Wide and odd heads: more than one step of k, and columns that no chunk divides.
TEST(GpuKernelsOfSizes, AttentionOfWideHeads) {
  for (const auto& [head_size, dtype] : {std::pair{128, Dtype::f16}, {100, Dtype::bf16}, {77, Dtype::f32}}) {
    Case where{
        .dtype = dtype, .seq = 130, .heads = 1, .head_size = head_size, .ffn = 32, .mask = "longformer"};
    where.mask = "longformer:global=3,window=20";
    const block::Problem problem = where.problem();
    std::vector<codegen::GpuKernel> sources;
    for (const bool hand_written : {false, true})
      for (const auto& schedule : lower::program_space({{1, 6}, hand_written}, problem, small_gpu()))
        sources.push_back(codegen::generate_gpu({{1, 6}, hand_written}, schedule, problem, small_gpu()));
    EXPECT_GE(sources.size(), 6u);
    expect_right(where, compile(sources));
  }
}
#endif

}  // namespace
}  // namespace fusetune::gpu_test
