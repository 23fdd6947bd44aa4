// Every mask pattern on the attention kernels, and that hand-written attention visits no tile without a
// visible pair. Built twice: with FUSETUNE_LARGE_MASKS, for tools/test --full, at three tiles of keys and in
// every dtype.
#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>

#include "block/mask.h"
#include "program/gpu_kernels.h"

namespace fusetune::gpu_test {
namespace {

using block::Dtype;

constexpr plan::SegmentVariant kWhole{{2, 6}, false}, kOnline{{2, 6}, true};

#ifdef FUSETUNE_LARGE_MASKS
constexpr std::int64_t kSeq = 130;
constexpr Dtype kDtypes[] = {Dtype::f32, Dtype::f16, Dtype::bf16};
#else
constexpr std::int64_t kSeq = 70;
constexpr Dtype kDtypes[] = {Dtype::f16};
#endif

/// Lengths, windows and blocks so small that tiles are empty, partial and full.
constexpr const char* kMasks[] = {"full",
                                  "padding:lengths=66/9",
                                  "causal",
                                  "strided:step=5",
                                  "fixed:step=6",
                                  "sliding:window=3",
                                  "sliding:window=3,causal=1,padding_lengths=70/65",
                                  "dilated:window=2,rate=2",
                                  "longformer:global=2,window=3",
                                  "bigbird:global=2,window=3,block=8,random=1",
                                  "block_diagonal:block=32"};

Case case_of(Dtype dtype, const std::string& mask) {
  return {.dtype = dtype, .seq = kSeq, .heads = 1, .head_size = 24, .ffn = 32, .mask = mask};
}

codegen::GpuKernel kernel_of(const plan::SegmentVariant& variant, const char* schedule,
                             const block::Problem& problem) {
  return codegen::generate_gpu(
      variant, lower::canonical(lower::GpuSchedule::parse(schedule), variant, problem), problem, small_gpu());
}

TEST(GpuMasks, EveryPatternIsRight) {
  for (const auto& pattern : block::mask_patterns())
    EXPECT_TRUE(
        pattern.name == "file" ||
        std::ranges::any_of(
            kMasks, [&](std::string_view mask) { return mask.substr(0, mask.find(':')) == pattern.name; }))
        << pattern.name;
  for (const Dtype dtype : kDtypes) {
    const block::Problem problem = case_of(dtype, "full").problem();
    const auto kernels = compile(
        {kernel_of(kWhole, "warps=4 query=32", problem), kernel_of(kOnline, "warps=2 query=32", problem)});
    for (const char* mask : kMasks) {
      SCOPED_TRACE(mask);
      expect_right(case_of(dtype, mask), kernels);
    }
  }
}

/// Tiles of the mask, once for each 16 query rows that have them: what the warps of all query blocks visit.
std::int64_t visits(const block::Problem& problem, std::int64_t query_rows) {
  const block::Mask mask(problem.mask, problem.batch, problem.seq);
  const auto tiles = block::MaskTiles::build(mask, 64);
  std::int64_t count = 0;
  for (std::int64_t b = 0; b < problem.batch; ++b)
    for (std::int64_t row = 0; row < (problem.seq + query_rows - 1) / query_rows * query_rows; row += 16) {
      const std::int64_t entry = tiles.entries == 1 ? 0 : b;
      const auto at = static_cast<std::size_t>(entry * tiles.tile_rows + std::min(row, problem.seq - 1) / 64);
      count += tiles.row_begin[at + 1] - tiles.row_begin[at];
    }
  return count * problem.heads;
}

TEST(GpuMasks, EmptyTilesAreSkipped) {
  Case where{.dtype = Dtype::f16, .seq = 130, .heads = 2, .head_size = 40, .ffn = 32};
  const auto kernels =
      compile({kernel_of(kOnline, "warps=4 query=64", where.problem())}, backend::simt::Mode::fast);
  // A visit of 64 keys with heads of 40 (three steps of k, six blocks of columns): 3 x 8 for the scores, 4 x
  // 6 for the context.
  constexpr std::int64_t products = 3 * 8 + 4 * 6;
  std::int64_t full = 0;
  for (const char* mask : {"full", "causal", "sliding:window=3", "block_diagonal:block=64",
                           "sliding:window=3,padding_lengths=130/20"}) {
    SCOPED_TRACE(mask);
    where.mask = mask;
    backend::simt::LaunchCounts counts;
    measure::EmulationOptions options;
    options.run.counts = &counts;
    measure::Emulation emulation(where.problem(), where.data(), options);
    for (const auto& kernel : kernels) EXPECT_EQ(emulation.check_segment(kernel).message, "");
    EXPECT_EQ(counts.products, products * visits(where.problem(), 64));
    if (full == 0)
      full = counts.products;
    else
      EXPECT_LT(counts.products, full);
  }
}

}  // namespace
}  // namespace fusetune::gpu_test
