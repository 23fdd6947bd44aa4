#include "block/random.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "block/data.h"
#include "block/rounding.h"

namespace fusetune::block {
namespace {

using testing::ElementsAre;

// Known answers of Random123's own test vectors (kat_vectors, philox 4x32 10).
TEST(Philox, KnownAnswers) {
  EXPECT_THAT(philox(0, 0, 0), ElementsAre(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
  EXPECT_THAT(philox(~0ull, ~0u, ~0ull, ~0u), ElementsAre(0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
  EXPECT_THAT(philox(0x299f31d0a4093822, 0x13198a2e, 0x85a308d3243f6a88, 0x03707344),
              ElementsAre(0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1));
}

TEST(Random, UnitAndBelowCoverTheirRange) {
  EXPECT_EQ(to_unit(0), 0.0);
  EXPECT_EQ(to_unit(~0u), 1.0 - 0x1p-24);
  EXPECT_EQ(to_below(~0u, 7), 6u);
  EXPECT_EQ(to_below(0, 7), 0u);
  EXPECT_EQ(to_below(~0u, 1), 0u);
}

TEST(Random, NormalsAreFiniteAtTheEnds) {
  EXPECT_EQ(to_normals(0, 0)[0], 0.0);                                                // ln 1
  EXPECT_NEAR(to_normals(~0u, 0)[0], std::sqrt(48 * std::log(2.0)), 1e-12);           // ln 2^-24
  EXPECT_NEAR(to_normals(~0u, 0x40000000)[1], std::sqrt(48 * std::log(2.0)), 1e-12);  // a quarter turn
}

Problem small_problem(DataMode mode) {
  Problem p;
  p.batch = 2, p.seq = 9, p.heads = 3, p.head_size = 11, p.ffn = 50, p.data = mode, p.seed = 42;
  return p;
}

TEST(GeneratedData, UniformElementsFollowTheDocumentedMapping) {
  const Problem p = small_problem(DataMode::uniform);
  const BlockData data = generate_data(p);
  const auto expect = [&](const std::vector<float>& values, std::uint32_t stream, std::size_t e) {
    const double unit = static_cast<double>(philox(42, stream, e / 4)[e % 4] >> 8) / 16777216.0;
    EXPECT_EQ(values[e], static_cast<float>(-0.4 + 0.8 * unit)) << stream << " " << e;
  };
  ASSERT_EQ(std::ssize(data.hidden), p.elements(Tensor::hidden));
  for (const std::size_t e : {0u, 1u, 5u, 593u}) expect(data.hidden, 0, e);
  for (const std::size_t e : {0u, 7u, 3266u}) expect(data[Weight::w_qkv], 1, e);
  expect(data[Weight::w_ffn2], 4, 1649);
  expect(data[Parameter::b_qkv], 5, 98);
  expect(data[Parameter::beta2], 12, 32);
}

TEST(GeneratedData, ScaledHasTheStatedMoments) {
  Problem p;
  p.heads = 4, p.head_size = 64, p.ffn = 1024, p.data = DataMode::scaled;
  const BlockData data = generate_data(p);
  const auto deviation = [](const std::vector<float>& values) {
    double sum = 0;
    for (const float value : values) sum += double{value} * value;
    return std::sqrt(sum / static_cast<double>(values.size()));
  };
  EXPECT_NEAR(deviation(data.hidden), 1.0, 0.02);
  EXPECT_NEAR(deviation(data[Weight::w_qkv]), 1 / 16.0, 0.001);
  EXPECT_NEAR(deviation(data[Weight::w_ffn2]), 1 / 32.0, 0.001);
  EXPECT_NEAR(deviation(data[Parameter::b_ffn1]), 0.02, 0.003);
  EXPECT_THAT(data[Parameter::gamma1], testing::Each(1.0f));
}

TEST(GeneratedData, IsRoundedToTheDtypeWhereItIsAnOperand) {
  Problem p = small_problem(DataMode::scaled);
  const BlockData exact = generate_data(p);
  p.dtype = Dtype::bf16;
  const BlockData rounded = generate_data(p);
  for (std::size_t i = 0; i < exact.hidden.size(); ++i) {
    ASSERT_EQ(rounded.hidden[i], round_to(exact.hidden[i], Dtype::bf16));
  }
  for (std::size_t i = 0; i < exact[Weight::w_out].size(); ++i) {
    ASSERT_EQ(rounded[Weight::w_out][i], round_to(exact[Weight::w_out][i], Dtype::bf16));
  }
  EXPECT_EQ(rounded.parameters, exact.parameters);
}

TEST(GeneratedData, DependsOnTheSeedOnly) {
  Problem p = small_problem(DataMode::uniform);
  const BlockData first = generate_data(p), again = generate_data(p);
  EXPECT_EQ(first.hidden, again.hidden);
  p.seed += std::uint64_t{1} << 32;
  EXPECT_NE(generate_data(p).hidden, first.hidden);
}

}  // namespace
}  // namespace fusetune::block
