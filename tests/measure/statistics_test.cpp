#include "measure/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

#include "base/error.h"

namespace fusetune::measure {
namespace {

/// n, n-1, ..., 1: the value is the rank.
std::vector<double> ranks(int n) {
  std::vector<double> values(static_cast<std::size_t>(n));
  std::iota(values.rbegin(), values.rend(), 1.0);
  return values;
}

TEST(Statistics, MedianAndDeviation) {
  EXPECT_EQ(median(std::vector<double>{3}), 3);
  EXPECT_EQ(median(std::vector<double>{9, 1, 5}), 5);
  EXPECT_EQ(median(std::vector<double>{4, 1, 2, 9}), 3);
  EXPECT_EQ(median_absolute_deviation(std::vector<double>{1, 1, 2, 2, 4, 6, 9}), 1);
  EXPECT_THROW(median(std::vector<double>{}), base::InternalError);
}

TEST(Statistics, HalvesShareNoValue) {
  EXPECT_EQ(half_medians(std::vector<double>{1, 20, 3, 10, 2}), (std::pair<double, double>{2, 15}));
  EXPECT_EQ(half_medians(std::vector<double>{5}), (std::pair<double, double>{0, 0}));
}

TEST(Statistics, Summary) {
  const TimingSummary summary = summarize(std::vector<double>{7, 3, 5, 100});
  EXPECT_EQ(summary.median_us, 6);
  EXPECT_EQ(summary.mad_us, 2);
  EXPECT_EQ(summary.min_us, 3);
  EXPECT_EQ(summary.count, 4);
  EXPECT_EQ(summarize({}).count, 0);
}

struct Ranks {
  int n;
  double alpha;
  int low, high;
};

// Exact ranks from the binomial distribution, e.g. n = 10: 2 P(Bin <= 1) = 22/1024, 2 P(Bin <= 2) = 112/1024.
TEST(Statistics, MedianIntervalHasTheTabulatedRanks) {
  for (const Ranks& expected : {Ranks{6, 0.05, 1, 6}, Ranks{10, 0.05, 2, 9}, Ranks{20, 0.05, 6, 15},
                                Ranks{40, 0.05, 14, 27}, Ranks{100, 0.05, 40, 61}, Ranks{10, 0.01, 1, 10}}) {
    const Interval interval = median_interval(ranks(expected.n), expected.alpha);
    EXPECT_EQ(interval.low, expected.low) << expected.n;
    EXPECT_EQ(interval.high, expected.high) << expected.n;
  }
}

TEST(Statistics, ValuesThatDependOnEachOtherCountAsFewer) {
  // 40 that count as 20: ranks 6 and 15 of 20 are 12 and 29 of 40.
  const Interval interval = median_interval(ranks(40), 0.05, 2);
  EXPECT_EQ(interval.low, 12);
  EXPECT_EQ(interval.high, 29);
  EXPECT_TRUE(std::isinf(median_interval(ranks(40), 0.05, 8).low));  // as five
  EXPECT_THROW(median_interval(ranks(40), 0.05, 0.5), base::InternalError);
}

TEST(Statistics, TooFewValuesClaimNothing) {
  for (int n = 0; n < 6; ++n) {
    const Interval interval = median_interval(ranks(n), 0.05);
    EXPECT_TRUE(std::isinf(interval.low) && interval.low < 0);
    EXPECT_TRUE(std::isinf(interval.high) && interval.high > 0);
  }
}

TEST(Statistics, IntervalCoversTheMedianAsOftenAsItSays) {
  std::mt19937_64 random(7);
  std::exponential_distribution<double> skewed(1.0);  // median log 2
  int covered = 0;
  constexpr int kRuns = 2000;
  for (int run = 0; run < kRuns; ++run) {
    std::vector<double> values(40);
    for (double& value : values) value = skewed(random);
    const Interval interval = median_interval(values, 0.05);
    if (interval.low <= std::log(2.0) && std::log(2.0) <= interval.high) ++covered;
  }
  EXPECT_GE(covered, 0.94 * kRuns);
  EXPECT_LE(covered, 0.98 * kRuns);  // discrete ranks: 0.962 for n = 40
}

TEST(Statistics, Ties) {
  EXPECT_TRUE(is_tied(1.02, {0.99, 1.05}));
  EXPECT_TRUE(is_tied(1.004, {1.002, 1.006}));
  EXPECT_TRUE(is_tied(0.9951, {0.99, 0.999}));
  EXPECT_FALSE(is_tied(1.02, {1.01, 1.03}));
  EXPECT_FALSE(is_tied(0.98, {0.97, 0.99}));
}

TEST(Statistics, PairedRatios) {
  EXPECT_EQ(paired_ratios(std::vector<double>{2, 4}, std::vector<double>{1, 8}),
            (std::vector<double>{0.5, 2}));
  EXPECT_THROW(paired_ratios(std::vector<double>{2}, std::vector<double>{}), base::InternalError);
}

TEST(IsSteady, UpToSixPercentWhereThereAreEnoughSamples) {
  EXPECT_TRUE(is_steady({.median_us = 100, .mad_us = 6, .min_us = 90, .count = 12}));
  EXPECT_FALSE(is_steady({.median_us = 100, .mad_us = 6.1, .min_us = 90, .count = 12}));
  EXPECT_FALSE(is_steady({.median_us = 100, .mad_us = 6.1, .min_us = 90, .count = kLeastForSpread}));
  EXPECT_TRUE(is_steady({.median_us = 100, .mad_us = 50, .min_us = 10, .count = kLeastForSpread - 1}));
}

}  // namespace
}  // namespace fusetune::measure
