#include "block/operators.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace fusetune::block {
namespace {

using testing::ElementsAre;

TEST(Operators, StandInExecutionOrder) {
  const std::vector<std::string> names{"qkv_gemm",
                                       "qkv_bias",
                                       "scores",
                                       "mask",
                                       "softmax",
                                       "context",
                                       "merge_heads",
                                       "out_gemm",
                                       "out_bias_residual",
                                       "layernorm1",
                                       "ffn1_gemm",
                                       "ffn1_bias_gelu",
                                       "ffn2_gemm",
                                       "ffn2_bias_residual",
                                       "layernorm2"};
  ASSERT_EQ(operators().size(), names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(operators()[i].name, names[i]);
    EXPECT_EQ(name(static_cast<Operator>(i)), names[i]);
  }
}

TEST(Operators, ReadOnlyWhatAnEarlierOperatorWrote) {
  std::set<Tensor> written{Tensor::hidden};
  for (const OperatorInfo& op : operators()) {
    for (const Tensor tensor : op.reads)
      EXPECT_TRUE(written.contains(tensor)) << op.name << " " << name(tensor);
    for (const Tensor tensor : op.writes) EXPECT_TRUE(written.insert(tensor).second) << name(tensor);
  }
  EXPECT_EQ(written.size(), kTensorCount);
}

TEST(Operators, ThreeEdgesSkipOperators) {
  std::vector<std::pair<Tensor, Operator>> skips;
  for (const OperatorInfo& op : operators()) {
    for (const Tensor tensor : op.reads) {
      if (op.id != Operator::qkv_gemm && producer(tensor) != static_cast<int>(op.id) - 1)
        skips.emplace_back(tensor, op.id);
    }
  }
  EXPECT_THAT(skips, ElementsAre(std::pair(Tensor::v, Operator::context),
                                 std::pair(Tensor::hidden, Operator::out_bias_residual),
                                 std::pair(Tensor::norm1, Operator::ffn2_bias_residual)));
}

TEST(Operators, EveryWeightAndParameterHasOneReader) {
  std::multiset<Weight> weights;
  std::multiset<Parameter> parameters;
  for (const OperatorInfo& op : operators()) {
    weights.insert(op.weights.begin(), op.weights.end());
    parameters.insert(op.parameters.begin(), op.parameters.end());
    EXPECT_EQ(op.kind == OperatorKind::gemm, !op.weights.empty()) << op.name;
  }
  EXPECT_EQ(std::set(weights.begin(), weights.end()).size(), kWeightCount);
  EXPECT_EQ(weights.size(), kWeightCount);
  EXPECT_EQ(std::set(parameters.begin(), parameters.end()).size(), kParameterCount);
  EXPECT_EQ(parameters.size(), kParameterCount);
  EXPECT_THAT(info(Operator::layernorm2).parameters, ElementsAre(Parameter::gamma2, Parameter::beta2));
  EXPECT_THAT(info(Operator::ffn1_bias_gelu).parameters, ElementsAre(Parameter::b_ffn1));
}

TEST(Operators, ProducersFollowTheTable) {
  EXPECT_EQ(producer(Tensor::hidden), -1);
  EXPECT_EQ(producer(Tensor::v), 1);
  EXPECT_EQ(producer(Tensor::norm1), 9);
  EXPECT_EQ(producer(Tensor::output), 14);
}

std::vector<Tensor> live(bool (*predicate)(Tensor, int, int), int first, int last) {
  std::vector<Tensor> result;
  for (int t = 0; t < kTensorCount; ++t) {
    if (predicate(static_cast<Tensor>(t), first, last)) result.push_back(static_cast<Tensor>(t));
  }
  return result;
}

TEST(Liveness, OfTheWholeBlock) {
  EXPECT_THAT(live(is_live_in, 0, 14), ElementsAre(Tensor::hidden));
  EXPECT_THAT(live(is_live_out, 0, 14), ElementsAre(Tensor::output));
}

TEST(Liveness, OfTheAttentionCore) {
  EXPECT_THAT(live(is_live_in, 2, 6), ElementsAre(Tensor::q, Tensor::k, Tensor::v));
  EXPECT_THAT(live(is_live_out, 2, 6), ElementsAre(Tensor::merged));
}

TEST(Liveness, FollowsSkipEdges) {
  EXPECT_THAT(live(is_live_out, 0, 2), ElementsAre(Tensor::v, Tensor::scores));
  EXPECT_THAT(live(is_live_out, 1, 1), ElementsAre(Tensor::q, Tensor::k, Tensor::v));
  EXPECT_THAT(live(is_live_in, 7, 9), ElementsAre(Tensor::hidden, Tensor::merged));
  EXPECT_THAT(live(is_live_out, 7, 10), ElementsAre(Tensor::norm1, Tensor::ffn_up));
  EXPECT_THAT(live(is_live_in, 13, 14), ElementsAre(Tensor::norm1, Tensor::ffn_down));
  EXPECT_THAT(live(is_live_out, 9, 13), ElementsAre(Tensor::ffn_sum));
}

TEST(Liveness, WhatOneSegmentWritesForAnotherIsReadFromMemory) {
  // For each border, a tensor is live across it out of [0, b] exactly when it is live into [b + 1, 14],
  // the block's own input aside.
  for (int border = 0; border < kOperatorCount - 1; ++border) {
    for (int t = 1; t < kTensorCount; ++t) {
      const auto tensor = static_cast<Tensor>(t);
      EXPECT_EQ(is_live_out(tensor, 0, border), is_live_in(tensor, border + 1, 14))
          << border << " " << name(tensor);
    }
  }
}

}  // namespace
}  // namespace fusetune::block
