#include "model/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "model/plans_by_sums.h"
#include "plan/fusion_plan.h"

namespace fusetune::model {
namespace {

using testing::ElementsAre;
using Numbers = std::vector<double>;

// Expected values worked out by hand from the definitions.

// Two ways through the block: the whole of it in one kernel, or two kernels.
TEST(PlansBySums, RegretIsWhatTheShortestPredictedPathTakesTooLong) {
  const int whole = plan::variant_index({{0, 14}, false}), first = plan::variant_index({{0, 12}, false}),
            second = plan::variant_index({{13, 14}, false});
  const std::vector<int> variants = {whole, whole, first, second};
  const Numbers measured = {10, 9, 6, 2};
  const auto regret_of = [&](const Numbers& predicted) {
    return score_plans(variants, predicted, measured, 1).path_regret;
  };
  EXPECT_DOUBLE_EQ(regret_of(measured), 0);
  // The whole block's slower schedule is taken for the fastest way: 10 where 6 + 2 was possible.
  EXPECT_DOUBLE_EQ(regret_of({1, 2, 6, 2}), 10.0 / 8 - 1);
  // Times of another unit order the same.
  EXPECT_DOUBLE_EQ(regret_of({1000, 900, 600, 200}), 0);
  for (const int none : {first, -1}) {  // no plan, and a whole plan's row
    const PlansBySums score = score_plans(std::vector<int>{none}, Numbers{1}, Numbers{1}, 8);
    EXPECT_TRUE(std::isnan(score.path_regret) && std::isnan(score.spearman)) << none;
    EXPECT_FALSE(score.top_holds_best) << none;
  }
}

// Three ways: the whole block, and the two halves with either of two first ones.
TEST(PlansBySums, AllPlansAreRankedAndTheTopOnesLookedAt) {
  const int whole = plan::variant_index({{0, 14}, false}), hand = plan::variant_index({{0, 14}, true}),
            first = plan::variant_index({{0, 12}, false}), second = plan::variant_index({{13, 14}, false});
  const std::vector<int> variants = {whole, hand, first, second};
  const Numbers measured = {10, 12, 6, 2};  // plans: 10, 12, 8
  const PlansBySums right = score_plans(variants, Numbers{20, 24, 12, 4}, measured, 1);
  EXPECT_DOUBLE_EQ(right.spearman, 1);
  EXPECT_TRUE(right.top_holds_best);
  const Numbers wrong = {1, 2, 6, 2};  // plans: 1, 2, 8
  EXPECT_DOUBLE_EQ(score_plans(variants, wrong, measured, 1).spearman, -0.5);
  EXPECT_FALSE(score_plans(variants, wrong, measured, 2).top_holds_best);
  EXPECT_TRUE(score_plans(variants, wrong, measured, 3).top_holds_best);
}

TEST(Metrics, RanksOfEqualValuesAreShared) {
  EXPECT_THAT(ranks(Numbers{30, 10, 20, 20}), ElementsAre(4, 1, 2.5, 2.5));
  EXPECT_THAT(ranks(Numbers{5, 5, 5}), ElementsAre(2, 2, 2));
}

TEST(Metrics, Spearman) {
  EXPECT_DOUBLE_EQ(spearman(Numbers{1, 2, 3, 4}, Numbers{10, 100, 1000, 1e9}), 1);
  EXPECT_DOUBLE_EQ(spearman(Numbers{1, 2, 3, 4}, Numbers{4, 3, 2, 1}), -1);
  // Ranks 1 2 3 4 5 against 2 1 4 3 5: 1 - 6 * 4 / (5 * 24).
  EXPECT_DOUBLE_EQ(spearman(Numbers{1, 2, 3, 4, 5}, Numbers{20, 10, 40, 30, 50}), 0.8);
  // Ranks 1 2.5 2.5 4 against 1 2 3 4: 4.5 / sqrt(4.5 * 5).
  EXPECT_DOUBLE_EQ(spearman(Numbers{1, 2, 2, 3}, Numbers{1, 2, 3, 4}), 4.5 / std::sqrt(4.5 * 5));
  EXPECT_TRUE(std::isnan(spearman(Numbers{1, 1, 1}, Numbers{1, 2, 3})));
  EXPECT_TRUE(std::isnan(spearman(Numbers{1}, Numbers{1})));
}

TEST(Metrics, AreaUnderCurve) {
  EXPECT_DOUBLE_EQ(area_under_curve(Numbers{0.1, 0.2, 0.8, 0.9}, {false, false, true, true}), 1);
  EXPECT_DOUBLE_EQ(area_under_curve(Numbers{0.9, 0.8, 0.2, 0.1}, {false, false, true, true}), 0);
  // Pairs (0.3 > 0.1), (0.3 < 0.4), (0.4 = 0.4), (0.4 > 0.1): 1 + 0 + 1/2 + 1 of 4.
  EXPECT_DOUBLE_EQ(area_under_curve(Numbers{0.1, 0.4, 0.3, 0.4}, {false, false, true, true}), 0.625);
  EXPECT_TRUE(std::isnan(area_under_curve(Numbers{1, 2}, {true, true})));
}

TEST(Metrics, PrecisionAndRecall) {
  const ClassCounts counts =
      count_classes({true, true, true, false, false}, {true, false, false, true, false});
  EXPECT_EQ(counts.true_positive, 1u);
  EXPECT_EQ(counts.false_positive, 2u);
  EXPECT_EQ(counts.false_negative, 1u);
  EXPECT_EQ(counts.true_negative, 1u);
  EXPECT_DOUBLE_EQ(counts.precision(), 1.0 / 3);
  EXPECT_DOUBLE_EQ(counts.recall(), 0.5);
  EXPECT_TRUE(std::isnan(count_classes({false}, {true}).precision()));
  EXPECT_TRUE(std::isnan(count_classes({true}, {false}).recall()));
}

TEST(Metrics, TopHoldsBest) {
  const Numbers measured{10.04, 20, 10, 30};
  EXPECT_TRUE(top_holds_best(Numbers{1, 2, 3, 4}, measured, 1)) << "10.04 is tied with 10";
  EXPECT_FALSE(top_holds_best(Numbers{3, 1, 4, 2}, measured, 2));
  EXPECT_TRUE(top_holds_best(Numbers{3, 1, 4, 2}, measured, 3));
  EXPECT_FALSE(top_holds_best(Numbers{1, 2, 3, 4}, Numbers{10.06, 20, 10, 30}, 1)) << "0.6 % is no tie";
  EXPECT_TRUE(top_holds_best(Numbers{1, 2, 3, 4}, measured, 99));
}

TEST(Metrics, RegretOfAPrunedSearch) {
  EXPECT_DOUBLE_EQ(regret({true, false, true}, Numbers{12, 10, 11}), 11.0 / 10 - 1);
  EXPECT_DOUBLE_EQ(regret({false, true, false}, Numbers{12, 10, 11}), 0);
  EXPECT_TRUE(std::isnan(regret({false, false}, Numbers{1, 2}))) << "nothing would be measured";
}

}  // namespace
}  // namespace fusetune::model
