#include "model/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "model/path_regret.h"
#include "plan/fusion_plan.h"

namespace fusetune::model {
namespace {

using testing::ElementsAre;
using Numbers = std::vector<double>;

// Expected values worked out by hand from the definitions.

// Two ways through the block: the whole of it in one kernel, or two kernels.
TEST(PathRegret, IsWhatTheShortestPredictedPathTakesTooLong) {
  const int whole = plan::variant_index({{0, 14}, false}), first = plan::variant_index({{0, 12}, false}),
            second = plan::variant_index({{13, 14}, false});
  const std::vector<int> variants = {whole, whole, first, second};
  const Numbers measured = {10, 9, 6, 2};
  EXPECT_DOUBLE_EQ(path_regret(variants, measured, measured), 0);
  // The whole block's slower schedule is taken for the fastest way: 10 where 6 + 2 was possible.
  EXPECT_DOUBLE_EQ(path_regret(variants, Numbers{1, 2, 6, 2}, measured), 10.0 / 8 - 1);
  // Times of another unit order the same.
  EXPECT_DOUBLE_EQ(path_regret(variants, Numbers{1000, 900, 600, 200}, measured), 0);
  EXPECT_TRUE(std::isnan(path_regret(std::vector<int>{first}, Numbers{1}, Numbers{1}))) << "no plan";
  EXPECT_TRUE(std::isnan(path_regret(std::vector<int>{-1}, Numbers{1}, Numbers{1}))) << "a whole plan";
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
