// The oracle on inputs whose right answer is known without it. tests/reference checks it as a whole.
#include "block/reference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/file.h"
#include "block/npy.h"
#include "block/rounding.h"

namespace fusetune::block {
namespace {

using testing::Each;

Problem make_problem(std::int64_t batch, std::int64_t seq, std::int64_t heads, std::int64_t head_size) {
  Problem p;
  p.batch = batch, p.seq = seq, p.heads = heads, p.head_size = head_size, p.ffn = 2 * heads * head_size;
  p.data = DataMode::scaled;
  return p;
}

Mask mask_of(const Problem& p) { return Mask(p.mask, p.batch, p.seq); }
Reference run(const Problem& p, const BlockData& data) { return compute_reference(p, mask_of(p), data); }

std::vector<double> row_of(const std::vector<double>& values, std::int64_t row, std::int64_t size) {
  return {values.begin() + row * size, values.begin() + (row + 1) * size};
}

TEST(Oracle, FullyMaskedRowsGiveZeroContextAndLeaveOthersAlone) {
  Problem p = make_problem(1, 8, 2, 4);
  const BlockData data = generate_data(p);
  const Reference open = run(p, data);

  base::TemporaryDirectory directory;
  std::vector<std::uint8_t> visible(64, 0);
  std::fill_n(visible.begin(), 32, 1);
  const std::filesystem::path file = directory.path() / "mask.npy";
  write_npy(file, std::vector<std::int64_t>{8, 8}, std::span<const std::uint8_t>(visible));
  p.mask = MaskSpec{"file", {{"path", file.string()}}};
  const Reference masked = run(p, data);

  for (std::int64_t h = 0; h < 2; ++h) {
    for (std::int64_t i = 0; i < 8; ++i) {
      const auto context = row_of(masked[Tensor::context], h * 8 + i, 4);
      if (i < 4) {
        EXPECT_EQ(context, row_of(open[Tensor::context], h * 8 + i, 4));
      } else {
        EXPECT_THAT(context, Each(0.0));
        EXPECT_THAT(row_of(masked[Tensor::probs], h * 8 + i, 8), Each(0.0));
      }
    }
  }
  for (const double value : masked[Tensor::output]) ASSERT_TRUE(std::isfinite(value));
}

TEST(Oracle, OnlyVisibleKeyInTheLastTileGivesExactlyItsValue) {
  Problem p = make_problem(1, 65, 1, 8);
  base::TemporaryDirectory directory;
  std::vector<std::uint8_t> visible(65 * 65, 0);
  for (std::int64_t i = 0; i < 65; ++i) visible[i * 65 + 64] = 1;
  const std::filesystem::path file = directory.path() / "mask.npy";
  write_npy(file, std::vector<std::int64_t>{65, 65}, std::span<const std::uint8_t>(visible));
  p.mask = MaskSpec{"file", {{"path", file.string()}}};
  const Reference reference = run(p, generate_data(p));
  for (std::int64_t i = 0; i < 65; ++i) {
    EXPECT_EQ(row_of(reference[Tensor::context], i, 8), row_of(reference[Tensor::v], 64, 8));
  }
}

TEST(Oracle, KeysThatNoQuerySeesHaveNoEffectWhateverTheyHold) {
  Problem p = make_problem(2, 12, 2, 4);
  p.mask = MaskSpec::parse("padding:lengths=12/7");
  BlockData data = generate_data(p);
  const Reference clean = run(p, data);
  const std::int64_t hidden = p.hidden();
  for (const float poison :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (std::int64_t s = 7; s < 12; ++s)
      std::fill_n(data.hidden.begin() + (12 + s) * hidden, hidden, poison);
    const Reference poisoned = run(p, data);
    EXPECT_EQ(poisoned[Tensor::output], clean[Tensor::output]);
    EXPECT_EQ(poisoned[Tensor::context], clean[Tensor::context]);
    EXPECT_EQ(poisoned[Tensor::probs], clean[Tensor::probs]);
  }
}

TEST(Oracle, PaddedOutputRowsAreExactlyZero) {
  Problem p = make_problem(2, 12, 2, 4);
  p.mask = MaskSpec::parse("padding:lengths=5/12");
  const Reference reference = run(p, generate_data(p));
  for (std::int64_t token = 0; token < 24; ++token) {
    const auto row = row_of(reference[Tensor::output], token, p.hidden());
    if (token >= 5 && token < 12) {
      EXPECT_THAT(row, Each(0.0)) << token;
    } else {
      EXPECT_THAT(row, Each(testing::Ne(0.0))) << token;
    }
  }
}

TEST(Oracle, WindowIsExact) {
  Problem p = make_problem(1, 70, 1, 4);
  p.mask = MaskSpec::parse("sliding:window=3");
  const Reference reference = run(p, generate_data(p));
  for (std::int64_t i = 0; i < 70; ++i) {
    double sum = 0;
    for (std::int64_t j = 0; j < 70; ++j) {
      const double probability = reference[Tensor::probs][i * 70 + j];
      const double score = reference[Tensor::masked_scores][i * 70 + j];
      EXPECT_EQ(probability > 0, std::abs(i - j) <= 3) << i << " " << j;
      EXPECT_EQ(score == -INFINITY, std::abs(i - j) > 3);
      sum += probability;
    }
    EXPECT_NEAR(sum, 1, 1e-14);
  }
}

/// A block whose row of attn_sum is `row` in every token: weights, biases and residual input arranged so.
Reference norm_of(const std::vector<double>& row, double eps, float gamma, float beta) {
  Problem p = make_problem(1, 2, 1, std::ssize(row));
  p.eps = eps;
  BlockData data = generate_data(p);
  for (auto& weight : data.weights) std::fill(weight.begin(), weight.end(), 0.0f);
  for (auto& parameter : data.parameters) std::fill(parameter.begin(), parameter.end(), 0.0f);
  for (std::size_t i = 0; i < data.hidden.size(); ++i)
    data.hidden[i] = static_cast<float>(row[i % row.size()]);
  for (const Parameter parameter : {Parameter::gamma1, Parameter::gamma2}) {
    data.parameters[static_cast<int>(parameter)].assign(row.size(), gamma);
  }
  for (const Parameter parameter : {Parameter::beta1, Parameter::beta2}) {
    data.parameters[static_cast<int>(parameter)].assign(row.size(), beta);
  }
  return run(p, data);
}

TEST(Oracle, LayerNormWithALargeOffset) {
  std::vector<double> row;
  for (int i = 0; i < 16; ++i) row.push_back(1000 + 0.001 * i);
  EXPECT_NEAR(norm_of(row, 1e-5, 1, 0)[Tensor::norm1][0], -1.3415, 5e-4);
}

TEST(Oracle, LayerNormOfAConstantRowIsBeta) {
  for (const double eps : {1e-5, 1e-12}) {
    for (const double constant : {0.0, 0.1, -3e5}) {
      EXPECT_THAT(norm_of(std::vector<double>(33, constant), eps, 3, 0.25f)[Tensor::norm1], Each(0.25));
    }
  }
}

/// ffn_act where ffn_up is 0 and b_ffn1 is `x`.
double gelu_of(double x, Gelu gelu) {
  Problem p = make_problem(1, 1, 1, 4);
  p.gelu = gelu;
  BlockData data = generate_data(p);
  std::fill(data.weights[static_cast<int>(Weight::w_ffn1)].begin(),
            data.weights[static_cast<int>(Weight::w_ffn1)].end(), 0.0f);
  data.parameters[static_cast<int>(Parameter::b_ffn1)].assign(p.ffn, static_cast<float>(x));
  return run(p, data)[Tensor::ffn_act][0];
}

TEST(Oracle, GeluForms) {
  EXPECT_EQ(gelu_of(0, Gelu::erf), 0.0);
  EXPECT_EQ(gelu_of(100, Gelu::erf), 100.0);
  EXPECT_EQ(gelu_of(100, Gelu::tanh), 100.0);
  EXPECT_NEAR(gelu_of(11, Gelu::erf), 11, 1e-14);
  // x * Phi(x) with Phi(-2.7) = 0.003466973803 and Phi(-13.24) = 2.5774414e-40 (tables of the normal tail).
  EXPECT_NEAR(gelu_of(-2.7, Gelu::erf), -2.7 * 0.003466973803, 1e-8);
  EXPECT_NEAR(gelu_of(-13.24, Gelu::erf) / (-13.24 * 2.5774414e-40), 1, 1e-4);
  EXPECT_NEAR(std::abs(gelu_of(-2.7, Gelu::tanh) - gelu_of(-2.7, Gelu::erf)), 4.7e-4, 1e-5);
}

TEST(Oracle, LargeLogitsStayFinite) {
  Problem p = make_problem(1, 4, 1, 128);
  p.dtype = Dtype::f16;
  BlockData data = generate_data(p);
  std::fill(data.weights[0].begin(), data.weights[0].end(), 0.0f);
  std::fill(data.parameters[0].begin(), data.parameters[0].begin() + 256, 32.0f);
  for (const ReferenceRounding rounding : {ReferenceRounding::none, ReferenceRounding::as_stored}) {
    const Reference reference = compute_reference(p, mask_of(p), data, 0, rounding);
    EXPECT_NEAR(reference[Tensor::scores][0], 131072 / std::sqrt(128.0), 1e-3);
    EXPECT_THAT(reference[Tensor::probs], Each(0.25));
    for (const double value : reference[Tensor::output]) ASSERT_TRUE(std::isfinite(value));
  }
}

TEST(Oracle, DoesNotDependOnTheNumberOfThreads) {
  Problem p = make_problem(2, 131, 3, 33);
  p.mask = MaskSpec::parse("bigbird:global=3,window=5");
  const BlockData data = generate_data(p);
  const Reference one = compute_reference(p, mask_of(p), data, 1),
                  five = compute_reference(p, mask_of(p), data, 5);
  for (int t = 0; t < kTensorCount; ++t)
    EXPECT_EQ(one.tensors[t], five.tensors[t]) << name(static_cast<Tensor>(t));
}

TEST(Oracle, RoundsAtTheStatedPoints) {
  Problem p = make_problem(1, 20, 2, 16);
  p.dtype = Dtype::bf16;
  const BlockData data = generate_data(p);
  const Reference exact = run(p, data);
  const Reference rounded = compute_reference(p, mask_of(p), data, 0, ReferenceRounding::as_stored);
  for (int t = 1; t < kTensorCount; ++t) {
    const auto tensor = static_cast<Tensor>(t);
    const bool wide = tensor == Tensor::scores || tensor == Tensor::masked_scores || tensor == Tensor::probs;
    double difference = 0, norm = 0;
    for (std::size_t i = 0; i < rounded[tensor].size(); ++i) {
      const double value = rounded[tensor][i];
      ASSERT_EQ(value, round_to(static_cast<float>(value), wide ? Dtype::f32 : Dtype::bf16)) << name(tensor);
      difference += (value - exact[tensor][i]) * (value - exact[tensor][i]);
      norm += exact[tensor][i] * exact[tensor][i];
    }
    EXPECT_GT(difference, 0) << name(tensor);
    EXPECT_LT(std::sqrt(difference / norm), 1e-2) << name(tensor);
  }
}

TEST(Oracle, RefusesDataOfAnotherProblem) {
  const Problem p = make_problem(1, 8, 2, 4);
  BlockData data = generate_data(p);
  Problem longer = p;
  longer.seq = 9;
  EXPECT_THROW(compute_reference(longer, mask_of(longer), data), base::InternalError);
  EXPECT_THROW(compute_reference(p, mask_of(longer), data), base::InternalError);
}

}  // namespace
}  // namespace fusetune::block
