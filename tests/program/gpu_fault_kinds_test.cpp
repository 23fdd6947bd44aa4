// Faults that GPU kernels in the field have had (docs/fault-kinds.md), on hand-made inputs whose answer is
// known.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>

#include "backend/simt/simt_block.h"
#include "block/npy.h"
#include "program/gpu_kernels.h"

namespace fusetune::gpu_test {
namespace {

using backend::simt::SimtBlock;
using block::Dtype;
using block::Parameter;
using block::Tensor;
using ::testing::Each;
using ::testing::FloatEq;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// One batch entry of one head.
Case one_head(Dtype dtype, std::int64_t seq, std::int64_t head_size, const std::string& mask = "full") {
  return {
      .dtype = dtype, .seq = seq, .heads = 1, .head_size = head_size, .ffn = 16, .mask = mask, .batch = 1};
}

/// A mask file, removed at the end.
class MaskFile {
 public:
  MaskFile(std::int64_t seq, const std::function<bool(std::int64_t, std::int64_t)>& visible)
      : path_(std::filesystem::temp_directory_path() /
              ("fusetune_kinds_" + std::to_string(getpid()) + ".npy")) {
    std::vector<std::uint8_t> values;
    for (std::int64_t i = 0; i < seq; ++i)
      for (std::int64_t j = 0; j < seq; ++j) values.push_back(visible(i, j) ? 1 : 0);
    const std::vector<std::int64_t> shape{seq, seq};
    block::write_npy(path_, shape, std::span<const std::uint8_t>(values));
  }
  ~MaskFile() { std::filesystem::remove(path_); }
  MaskFile(const MaskFile&) = delete;
  MaskFile& operator=(const MaskFile&) = delete;
  std::string spec() const { return "file:path=" + path_.string(); }

 private:
  std::filesystem::path path_;
};

/// A tensor given by row and column.
using Values = std::function<float(std::int64_t, std::int64_t)>;
std::vector<double> filled(std::int64_t rows, std::int64_t columns, const Values& values) {
  std::vector<double> tensor;
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) tensor.push_back(values(i, j));
  return tensor;
}
Values all(float x) {
  return [x](std::int64_t, std::int64_t) { return x; };
}

/// Runs one kernel on the given inputs and returns what it leaves in `output`.
std::vector<float> run(const block::Problem& problem, const block::BlockData& data,
                       const plan::SegmentVariant& variant, const char* schedule,
                       const std::vector<std::pair<Tensor, std::vector<double>>>& inputs, Tensor output) {
  const auto kernels = compile(
      {codegen::generate_gpu(variant, lower::canonical(lower::GpuSchedule::parse(schedule), variant, problem),
                             problem, small_gpu())});
  if (kernels.empty()) return {};
  SimtBlock block(problem, block::Mask(problem.mask, problem.batch, problem.seq), data);
  for (const auto& [tensor, values] : inputs) block.write(tensor, values);
  const auto& [source, library] = kernels.front();
  const auto finding = block.run(source, library->kernel(source.symbol), {});
  EXPECT_FALSE(finding) << finding->message;
  return block.read(output);
}

/// Rows of the context of one head, [S][W], by [2-6] generated and hand-written.
std::vector<std::vector<float>> contexts(const Case& where, const Values& q, const Values& k,
                                         const Values& v) {
  const block::Problem problem = where.problem();
  const auto values = [&](const Values& rows) { return filled(where.seq, where.head_size, rows); };
  std::vector<std::vector<float>> results;
  for (const bool hand_written : {false, true})
    results.push_back(run(problem, where.data(), {{2, 6}, hand_written}, "warps=2 query=32",
                          {{Tensor::q, values(q)}, {Tensor::k, values(k)}, {Tensor::v, values(v)}},
                          Tensor::merged));
  return results;
}
std::vector<float> row_of(const std::vector<float>& tensor, std::int64_t row, std::int64_t columns) {
  return {tensor.begin() + row * columns, tensor.begin() + (row + 1) * columns};
}

Values row_number() {
  return [](std::int64_t row, std::int64_t) { return static_cast<float>(row); };
}

TEST(GpuFaultKinds, RowsThatSeeNoKeyAreZeroAndOthersAreNotTouched) {
  const MaskFile mask(8, [](std::int64_t i, std::int64_t) { return i < 4; });
  for (const auto& context : contexts(one_head(Dtype::f32, 8, 16, mask.spec()), all(0), all(1), row_number()))
    for (std::int64_t row = 0; row < 8; ++row)
      EXPECT_THAT(row_of(context, row, 16), Each(FloatEq(row < 4 ? 3.5f : 0.0f))) << row;
}

TEST(GpuFaultKinds, OnlyTheKeyBehindTheFirstTileIsVisible) {
  const MaskFile mask(65, [](std::int64_t, std::int64_t j) { return j == 64; });
  const Values v = [](std::int64_t row, std::int64_t) { return row == 64 ? -3.25f : 100.0f; };
  for (const Dtype dtype : {Dtype::f32, Dtype::f16})
    for (const auto& context : contexts(one_head(dtype, 65, 16, mask.spec()), all(1), row_number(), v))
      EXPECT_THAT(context, Each(-3.25f));
}

TEST(GpuFaultKinds, KeysOfPaddingMayHoldAnything) {
  const auto beyond = [](float inside, float outside) -> Values {
    return [=](std::int64_t row, std::int64_t) { return row < 32 ? inside : outside; };
  };
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16})
    for (const auto& context : contexts(one_head(dtype, 65, 16, "padding:lengths=32"), all(1),
                                        beyond(1, kNan), beyond(2, kInfinity)))
      for (std::int64_t row = 0; row < 65; ++row)
        EXPECT_THAT(row_of(context, row, 16), Each(FloatEq(row < 32 ? 2.0f : 0.0f))) << row;
}

TEST(GpuFaultKinds, ScoresThatNoHalfHoldsAreFinite) {
  for (const auto& context : contexts(one_head(Dtype::f16, 8, 128), all(32), all(32), row_number()))
    EXPECT_THAT(context, Each(3.5f));
}

/// norm1 of the given rows of attn_sum; gamma is 1.
std::vector<float> layernorm(const Case& where, float eps, float beta, const Values& rows) {
  block::Problem problem = where.problem();
  problem.eps = eps;
  block::BlockData data = where.data();
  std::ranges::fill(data.parameters[static_cast<std::size_t>(Parameter::gamma1)], 1.0f);
  std::ranges::fill(data.parameters[static_cast<std::size_t>(Parameter::beta1)], beta);
  return run(problem, data, {{9, 9}, false}, "",
             {{Tensor::attn_sum, filled(where.seq, problem.hidden(), rows)}}, Tensor::norm1);
}

TEST(GpuFaultKinds, LayerNormKeepsTheDigitsOfLargeRows) {
  const auto steps = layernorm(one_head(Dtype::f32, 3, 16), 1e-5f, 0, [](std::int64_t, std::int64_t i) {
    return 1000 + 0.001f * static_cast<float>(i);
  });
  EXPECT_NEAR(steps[0], -1.3415f, 2e-4f);
  EXPECT_THAT(layernorm(one_head(Dtype::f32, 3, 16), 1e-5f, 0.75f, all(1000)), Each(0.75f));
  EXPECT_THAT(layernorm(one_head(Dtype::f16, 3, 16), 1e-12f, 0.75f, all(0)), Each(0.75f));
}

/// A row of zeros that ends in a 1: its deviation is sqrt(D - 1) / D, of which the 1 is D - 1 times 1 / D
/// away.
TEST(GpuFaultKinds, TheLastPartialWarpOfARowCounts) {
  for (const auto& [heads, head_size] : {std::pair{1, 20}, {1, 33}, {45, 64}, {10, 289}}) {
    Case where = one_head(Dtype::f32, 3, head_size);
    where.heads = heads;
    const std::int64_t columns = heads * head_size;
    const auto norm = layernorm(where, 1e-12f, 0,
                                [&](std::int64_t, std::int64_t i) { return i == columns - 1 ? 1.0f : 0.0f; });
    const float last = std::sqrt(static_cast<float>(columns - 1));
    for (std::int64_t row = 0; row < 3; ++row) {
      EXPECT_NEAR(row_of(norm, row, columns).back(), last, 1e-5f * last) << columns;
      EXPECT_NEAR(row_of(norm, row, columns).front(), -1 / last, 1e-5f / last) << columns;
    }
  }
}

/// As much as a block gets without asking for more; kernels have no static shared memory beside it.
TEST(GpuFaultKinds, ExactlyFortyEightKibibytesOfSharedMemory) {
  Case where{.dtype = Dtype::f16, .seq = 64, .heads = 1, .head_size = 48, .ffn = 200, .batch = 1};
  const block::Problem problem = where.problem();
  const auto kernel = codegen::generate_gpu(
      {{12, 12}, false}, lower::GpuSchedule::parse("warps=4 tile=64x48x64 stages=3"), problem, small_gpu());
  ASSERT_EQ(kernel.shared_bytes, 49152);
  expect_right(where, compile({kernel}));
}

}  // namespace
}  // namespace fusetune::gpu_test
