// Faults planted into correct tensors: each must be found, and where it is.
#include "measure/check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "base/error.h"
#include "block/data.h"
#include "block/reference.h"

namespace fusetune::measure {
namespace {

using block::Tensor;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class CheckTest : public ::testing::Test {
 protected:
  CheckTest() { use("full"); }

  void use(const std::string& mask_text) {
    problem = block::Problem{};
    problem.batch = 2;
    problem.seq = 12;
    problem.heads = 2;
    problem.head_size = 8;
    problem.ffn = 24;
    problem.mask = block::MaskSpec::parse(mask_text);
    mask.emplace(problem.mask, problem.batch, problem.seq);
    reference = block::compute_reference(problem, *mask, block::generate_data(problem), 1);
  }

  std::vector<float> right(Tensor tensor) const {
    return {reference[tensor].begin(), reference[tensor].end()};
  }

  TensorCheck compare(Tensor tensor, const std::vector<float>& got) const {
    return compare_with_oracle(problem, *mask, tensor, got,
                               [this](Tensor which) { return std::span<const double>(reference[which]); });
  }

  block::Problem problem;
  std::optional<block::Mask> mask;
  block::Reference reference;
};

TEST_F(CheckTest, RightTensorsPassUnderEveryMask) {
  for (const char* text : {"full", "causal", "padding:lengths=5/12", "sliding:window=2"}) {
    use(text);
    for (int i = 0; i < block::kTensorCount; ++i) {
      const auto tensor = static_cast<Tensor>(i);
      const TensorCheck check = compare(tensor, right(tensor));
      EXPECT_TRUE(check.passed) << text << ": " << describe(check, bounds(problem.dtype));
      EXPECT_LT(check.norm_error, 1e-7);
      EXPECT_EQ(check.tensor, block::name(tensor));
    }
  }
}

TEST_F(CheckTest, OneWrongElementIsNamed) {
  auto got = right(Tensor::norm1);
  const std::size_t at = (1 * 12 + 7) * 16 + 3;  // [1,7,3] of [2,12,16]
  got[at] += 1e-3f;
  const TensorCheck check = compare(Tensor::norm1, got);
  EXPECT_FALSE(check.passed);
  EXPECT_EQ(check.worst_at, (std::vector<std::int64_t>{1, 7, 3}));
  EXPECT_EQ(check.got, static_cast<double>(got[at]));
  EXPECT_EQ(check.want, reference[Tensor::norm1][at]);
  EXPECT_NE(describe(check, bounds(problem.dtype)).find("norm1 at [1,7,3]: got "), std::string::npos);
}

TEST_F(CheckTest, ErrorsAreMeasuredAsDocumented) {
  auto got = right(Tensor::ffn_act);
  for (float& value : got) value *= 1 + 5e-6f;  // within the bounds: norm error 5e-6
  TensorCheck check = compare(Tensor::ffn_act, got);
  EXPECT_TRUE(check.passed);
  EXPECT_NEAR(check.norm_error, 5e-6, 2e-7);
  EXPECT_NEAR(check.worst_error, 5e-6, 2e-7);
  for (float& value : got) value *= 1 + 1e-5f;  // 15e-6: the norm bound is 1e-5, the worst element's 2e-5
  check = compare(Tensor::ffn_act, got);
  EXPECT_FALSE(check.passed);
  EXPECT_LT(check.worst_error, bounds(problem.dtype).worst);
}

TEST_F(CheckTest, NanNeverPasses) {
  for (const Tensor tensor :
       {Tensor::q, Tensor::scores, Tensor::masked_scores, Tensor::probs, Tensor::output}) {
    auto got = right(tensor);
    got.back() = kNan;
    const TensorCheck check = compare(tensor, got);
    EXPECT_FALSE(check.passed) << block::name(tensor);
    EXPECT_EQ(check.not_finite, 1);
    EXPECT_TRUE(std::isnan(check.got));
  }
}

TEST_F(CheckTest, NothingFiniteIsNotNoError) {
  const TensorCheck check = compare(Tensor::output, std::vector<float>(right(Tensor::output).size(), kNan));
  EXPECT_FALSE(check.passed);
  EXPECT_TRUE(std::isinf(check.norm_error));
}

TEST_F(CheckTest, MaskedScoresAreMinusInfinityExactly) {
  use("causal");
  const std::size_t masked = 1;  // query 0, key 1
  ASSERT_TRUE(std::isinf(reference[Tensor::masked_scores][masked]));
  for (const float wrong : {-1e30f, 0.0f, std::numeric_limits<float>::infinity(), kNan}) {
    auto got = right(Tensor::masked_scores);
    got[masked] = wrong;
    const TensorCheck check = compare(Tensor::masked_scores, got);
    EXPECT_FALSE(check.passed) << wrong;
    EXPECT_EQ(check.worst_at, (std::vector<std::int64_t>{0, 0, 0, 1}));
  }
  auto got = right(Tensor::masked_scores);
  got[0] = -std::numeric_limits<float>::infinity();  // a visible pair
  EXPECT_FALSE(compare(Tensor::masked_scores, got).passed);
}

TEST_F(CheckTest, MaskedProbabilitiesAreZeroExactly) {
  use("causal");
  auto got = right(Tensor::probs);
  got[1] = 1e-12f;
  const TensorCheck check = compare(Tensor::probs, got);
  EXPECT_FALSE(check.passed);
  EXPECT_NE(check.note.find("exactly zero"), std::string::npos);
}

TEST_F(CheckTest, PaddedRowsCountInOutputOnly) {
  use("padding:lengths=5/12");
  const std::size_t padded = 7 * 16;  // batch entry 0, row 7, of [2,12,16]
  for (const Tensor tensor : {Tensor::merged, Tensor::norm1, Tensor::attn_sum}) {
    auto got = right(tensor);
    got[padded] = kNan;
    EXPECT_TRUE(compare(tensor, got).passed) << block::name(tensor);
  }
  for (const float wrong : {1e-20f, kNan}) {
    auto got = right(Tensor::output);
    got[padded] = wrong;
    EXPECT_FALSE(compare(Tensor::output, got).passed) << wrong;
  }
  auto got = right(Tensor::norm1);
  got[4 * 16] += 1;  // the last row that is no padding
  EXPECT_FALSE(compare(Tensor::norm1, got).passed);
}

TEST_F(CheckTest, PaddedRowsPerHead) {
  use("padding:lengths=5/12");
  auto got = right(Tensor::q);
  got[(1 * 12 + 5) * 8] = kNan;  // [0,1,5,0]: padded
  EXPECT_TRUE(compare(Tensor::q, got).passed);
  got[(2 * 12 + 5) * 8] = kNan;  // [1,0,5,0]: the other entry has 12 tokens
  EXPECT_FALSE(compare(Tensor::q, got).passed);
}

TEST_F(CheckTest, ScoresOfKeysThatNoQuerySeesAreFree) {
  use("padding:lengths=5/12");
  auto got = right(Tensor::scores);
  got[9] = 123;  // entry 0, query 0, key 9: padding
  EXPECT_TRUE(compare(Tensor::scores, got).passed);
  got[3] += 1;
  EXPECT_FALSE(compare(Tensor::scores, got).passed);
}

TEST_F(CheckTest, FullyMaskedRowsOfContextAreZeroExactly) {
  // As the oracle has it where query 0 sees no key.
  auto& context = reference.tensors[static_cast<int>(Tensor::context)];
  std::fill_n(context.begin(), problem.head_size, 0.0);
  auto got = right(Tensor::context);
  EXPECT_TRUE(compare(Tensor::context, got).passed);
  got[2] = 1e-30f;
  const TensorCheck check = compare(Tensor::context, got);
  EXPECT_FALSE(check.passed);
  EXPECT_EQ(check.worst_at, (std::vector<std::int64_t>{0, 0, 0, 2}));
}

TEST_F(CheckTest, SameValuesLooksWhereTheComparisonDoes) {
  use("padding:lengths=5/12");
  const auto first = right(Tensor::norm1);
  auto second = first;
  second[7 * 16] = kNan;  // padded
  EXPECT_TRUE(same_values(problem, *mask, Tensor::norm1, first, second));
  second[0] = std::nextafter(second[0], 10.0f);
  EXPECT_FALSE(same_values(problem, *mask, Tensor::norm1, first, second));
}

TEST_F(CheckTest, WrongLengthIsOurBug) {
  EXPECT_THROW(compare(Tensor::norm1, std::vector<float>(3)), base::InternalError);
}

}  // namespace
}  // namespace fusetune::measure
