// tools/test --full: pairs of everything that a kernel's text or its masks depend on, and every schedule.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "block/npy.h"
#include "program/gpu_kernels.h"

namespace fusetune::gpu_test {
namespace {

using backend::simt::ThreadOrder;
using block::Dtype;

constexpr const char* kBigbird = "bigbird:global=8,window=8,block=16,random=1";
constexpr const char* kPadded = "sliding:window=5,padding_lengths=20/31";
constexpr const char* kHidden = "hidden rows";  // a file, written by the test

/// Any two of: S 33, 63, 65; W 32, 40, 64; five masks; three dtypes; small and large logits; thread orders.
/// In float32 large logits are up to 172 (factor 16), whose exponential is too large unless the row's maximum
/// is taken off. The causal case has 8 (logits to 45): its long rows are ill-conditioned. With 16 a plain
/// float32 computation of it in NumPy (one matrix product after the other, softmax less the maximum) is off
/// by 2.5e-5 of a row's largest magnitude at [1,64,3] of attn_proj, more than the bound of 2e-5, and
/// by 1.6e-5 where each product is summed term by term; with 8 by 3.6e-6 and 4.8e-6. The other two are off by
/// at most 1.1e-5.
const Case kPairs[] = {
    {Dtype::f32, 33, 2, 32, 64, "full", block::Gelu::erf, 1, ThreadOrder::forward},
    {Dtype::f16, 33, 2, 40, 96, "causal", block::Gelu::tanh, 2, ThreadOrder::forward},
    {Dtype::bf16, 33, 1, 64, 130, kBigbird, block::Gelu::erf, 2, ThreadOrder::reverse},
    {Dtype::f16, 33, 3, 32, 100, kPadded, block::Gelu::erf, 1, ThreadOrder::random},
    {Dtype::f32, 33, 1, 40, 33, kHidden, block::Gelu::erf, 16, ThreadOrder::reverse},
    {Dtype::bf16, 63, 2, 32, 65, "causal", block::Gelu::erf, 1, ThreadOrder::reverse},
    {Dtype::f32, 63, 1, 64, 200, kPadded, block::Gelu::tanh, 16, ThreadOrder::forward},
    {Dtype::f16, 63, 2, 64, 64, kHidden, block::Gelu::erf, 1, ThreadOrder::random},
    {Dtype::bf16, 63, 2, 40, 80, "full", block::Gelu::tanh, 1, ThreadOrder::random},
    {Dtype::f32, 65, 2, 40, 72, kBigbird, block::Gelu::erf, 1, ThreadOrder::random},
    {Dtype::bf16, 65, 1, 32, 48, kHidden, block::Gelu::tanh, 2, ThreadOrder::forward},
    {Dtype::f16, 65, 1, 64, 256, "full", block::Gelu::erf, 2, ThreadOrder::reverse},
    {Dtype::bf16, 65, 2, 40, 50, kPadded, block::Gelu::erf, 2, ThreadOrder::reverse},
    {Dtype::f32, 65, 1, 64, 96, "causal", block::Gelu::erf, 8, ThreadOrder::random},
    {Dtype::f16, 63, 1, 32, 77, kBigbird, block::Gelu::erf, 2, ThreadOrder::forward},
};

/// What a case has of each kind of value that is to be paired.
std::vector<std::string> levels(const Case& where) {
  return {std::string(block::name(where.dtype)), std::to_string(where.seq),
          std::to_string(where.head_size),       where.mask,
          where.logits > 1 ? "large" : "small",  std::to_string(static_cast<int>(where.order))};
}

TEST(GpuMatrixCases, HaveEveryPair) {
  std::set<std::tuple<std::size_t, std::string, std::size_t, std::string>> pairs;
  std::map<std::size_t, std::set<std::string>> all;
  for (const Case& where : kPairs) {
    const auto has = levels(where);
    for (std::size_t a = 0; a < has.size(); ++a) {
      all[a].insert(has[a]);
      for (std::size_t b = a + 1; b < has.size(); ++b) pairs.insert({a, has[a], b, has[b]});
    }
  }
  EXPECT_EQ(all[3].size(), 5u);
  for (std::size_t a = 0; a < all.size(); ++a)
    for (std::size_t b = a + 1; b < all.size(); ++b)
      for (const std::string& x : all[a])
        for (const std::string& y : all[b]) EXPECT_TRUE(pairs.contains({a, x, b, y})) << x << " with " << y;
}

/// A mask that hides every key from some rows, one of them a whole mask tile's last.
std::string hidden_rows_file(std::int64_t seq) {
  std::vector<std::uint8_t> visible(static_cast<std::size_t>(seq * seq));
  for (std::int64_t i = 0; i < seq; ++i)
    for (std::int64_t j = 0; j < seq; ++j)
      visible[static_cast<std::size_t>(i * seq + j)] = i % 7 != 3 && i != 63 && (i + 2 * j) % 3 != 0;
  const auto file =
      std::filesystem::temp_directory_path() / ("fusetune_hidden_" + std::to_string(seq) + ".npy");
  const std::vector<std::int64_t> shape{seq, seq};
  block::write_npy(file, shape, std::span<const std::uint8_t>(visible));
  return "file:path=" + file.string();
}

Case with_mask_file(Case where) {
  if (where.mask == kHidden) where.mask = hidden_rows_file(where.seq);
  return where;
}

class GpuMatrix : public testing::TestWithParam<Case> {};

TEST_P(GpuMatrix, EveryVariantIsRight) {
  const Case where = with_mask_file(GetParam());
  const auto kernels = compile(default_kernels(where.problem()));
  expect_right(where, kernels);
  expect_plans_right(where, kernels, 60);
}

INSTANTIATE_TEST_SUITE_P(Pairs, GpuMatrix, testing::ValuesIn(kPairs),
                         [](const auto& info) { return info.param.name(); });

class GpuSchedules : public testing::TestWithParam<Case> {};

/// About a thousand kernels a case. Of the float32 case's every 37th took, on one core, 0.47 s to compile and
/// 0.28 s to run; with two heads and two entries 0.78 s to run. Fast mode gains nothing: 0.86 s to compile.
TEST_P(GpuSchedules, AllOfEveryVariantAreRight) {
  expect_right(GetParam(), compile(all_kernels(GetParam().problem())));
}

INSTANTIATE_TEST_SUITE_P(
    All, GpuSchedules,
    testing::Values(Case{Dtype::f32, 65, 1, 40, 200, "causal", block::Gelu::erf, 1, ThreadOrder::forward, 1},
                    Case{Dtype::f16, 65, 1, 40, 200, kBigbird, block::Gelu::erf, 2, ThreadOrder::reverse, 1},
                    Case{Dtype::bf16, 67, 1, 33, 130, kPadded, block::Gelu::erf, 1, ThreadOrder::random, 2}),
    [](const auto& info) { return info.param.name(); });

}  // namespace
}  // namespace fusetune::gpu_test
