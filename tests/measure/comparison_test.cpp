#include "measure/comparison.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "base/error.h"

namespace fusetune::measure {
namespace {

/// Processes in which plan i takes `seconds[i]`, give or take where the process has its memory, and each
/// sample some noise.
struct Machine {
  std::vector<double> seconds;
  double between_processes = 0;  // standard deviation, shares
  double noise = 0;
  std::mt19937_64 random{11};

  double deviate(double deviation) { return 1 + deviation * std::normal_distribution<double>()(random); }

  /// What the next process sees of `plans`.
  std::vector<PairSeries> part(const std::vector<int>& plans, int pairs, int number) {
    std::vector<double> here;
    for (const int plan : plans)
      here.push_back(seconds[static_cast<std::size_t>(plan)] * deviate(between_processes));
    const Sampler sampler = [&](int index) {
      return Sample{here[static_cast<std::size_t>(index)] * deviate(noise), false};
    };
    return time_pairs(static_cast<int>(plans.size()), pairs, sampler, number);
  }

  Comparison compare(int pairs) {
    Comparison comparison(static_cast<int>(seconds.size()), pairs);
    while (!comparison.next_plans().empty())
      comparison.add(part(comparison.next_plans(), comparison.next_pairs(), comparison.next_part()));
    return comparison;
  }
};

double ratio(const Comparison& comparison, int plan) {
  const PairSeries& series = comparison.series(plan);
  return median(paired_ratios(series.baseline_us, series.plan_us));
}

/// Of 200 comparisons of five equal plans, those that claim a difference.
template <typename Interval>
int claims(double between_processes, const Interval& interval) {
  int claims = 0;
  for (unsigned run = 0; run < 200; ++run) {
    Machine machine{.seconds = {1, 1, 1, 1, 1}, .between_processes = between_processes, .noise = 0.05};
    machine.random.seed(run);
    const Comparison comparison = machine.compare(160);
    bool claimed = false;
    for (int plan = 1; plan < 5; ++plan) {
      const auto [low, high] = interval(comparison, plan);
      claimed = claimed || low > 1 || high < 1;
    }
    claims += claimed;
  }
  return claims;
}

TEST(Comparison, PairsAreSpreadOverProcesses) {
  struct Spread {
    int pairs;
    std::vector<int> expected;
  };
  for (const Spread& spread :
       {Spread{160, {20, 20, 20, 20, 20, 20, 20, 20}}, Spread{43, {6, 6, 6, 5, 5, 5, 5, 5}},
        Spread{20, {5, 5, 5, 5}}, Spread{10, {5, 5}}, Spread{9, {9}}, Spread{1, {1}}}) {
    Machine machine{.seconds = {1, 1, 1}};
    Comparison comparison(3, spread.pairs);
    std::vector<int> taken;
    while (!comparison.next_plans().empty()) {
      EXPECT_EQ(comparison.next_part(), static_cast<int>(taken.size()));
      taken.push_back(comparison.next_pairs());
      comparison.add(machine.part(comparison.next_plans(), taken.back(), comparison.next_part()));
    }
    EXPECT_EQ(taken, spread.expected);
    EXPECT_EQ(comparison.series(2).plan_us.size(), static_cast<std::size_t>(spread.pairs));
    EXPECT_EQ(comparison.series(2).outcome, Outcome::ok);
    EXPECT_EQ(comparison.series(0).outcome, Outcome::ok);
  }
}

TEST(Comparison, ClearlySlowerPlansAreDroppedEarly) {
  Machine machine{.seconds = {1e-3, 1.5e-3, 1.001e-3, 1.02e-3}, .noise = 0.01};
  const Comparison comparison = machine.compare(160);
  EXPECT_EQ(comparison.series(1).plan_us.size(), 80U);
  EXPECT_EQ(comparison.series(1).outcome, Outcome::ok);
  EXPECT_EQ(comparison.series(2).plan_us.size(), 160U);
  EXPECT_FALSE(is_tied(ratio(comparison, 1), comparison.interval(1)));
  EXPECT_TRUE(is_tied(ratio(comparison, 2), comparison.interval(2)));
  EXPECT_FALSE(is_tied(ratio(comparison, 3), comparison.interval(3)));
}

TEST(Comparison, EqualPlansRarelyDiffer) {
  const auto interval = [](const Comparison& comparison, int plan) { return comparison.interval(plan); };
  EXPECT_LE(claims(0, interval), 20);  // 5 % of 200, and some luck
  EXPECT_LE(claims(0.01, interval), 20);
  EXPECT_LE(claims(0.03, interval), 20);
}

TEST(Comparison, PairsOfOneProcessWouldClaimMore) {
  // The same pairs, taken for independent: 160 pairs of 5 % noise beside processes that differ by 3 %.
  const auto naive = [](const Comparison& comparison, int plan) {
    const PairSeries& series = comparison.series(plan);
    return median_interval(paired_ratios(series.baseline_us, series.plan_us), kFamilyError / 4);
  };
  EXPECT_GT(claims(0.03, naive), 40);
}

TEST(Comparison, DesignEffectOfProcessesThatAgreeIsOne) {
  double sum = 0;
  constexpr int kRuns = 400;
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal;
  for (int run = 0; run < kRuns; ++run) {
    PlanSeries series{.pairs = {}, .counts = {20, 10, 30, 20}};
    for (int i = 0; i < 80; ++i) {
      series.pairs.baseline_us.push_back(1);
      series.pairs.plan_us.push_back(1 + 0.01 * normal(random));
    }
    sum += design_effect(series);
  }
  EXPECT_NEAR(sum / kRuns, 1, 0.1);
}

TEST(Comparison, DesignEffectOfProcessesThatDisagreeIsTheirSize) {
  PlanSeries series{.pairs = {}, .counts = {10, 10, 10, 10}};
  for (int i = 0; i < 40; ++i) {
    series.pairs.baseline_us.push_back(1);
    series.pairs.plan_us.push_back(i / 10 % 2 == 0 ? 1.1 : 0.9);
  }
  EXPECT_DOUBLE_EQ(design_effect(series), 40.0 / 3);  // each sum of signs is 10: 4 * 10 / 3
  series.counts = {40};
  EXPECT_EQ(design_effect(series), 1);
}

TEST(Comparison, AFailedPlanIsNotTimedAgain) {
  Machine machine{.seconds = {1, 1, 1}};
  Comparison comparison(3, 40);
  comparison.add(machine.part({0, 1, 2}, 5, 0));
  comparison.take_out(1);
  EXPECT_EQ(comparison.next_plans(), (std::vector<int>{0, 2}));
  comparison.add(machine.part({0, 2}, 5, 1));
  EXPECT_EQ(comparison.series(2).plan_us.size(), 10U);
  EXPECT_EQ(comparison.series(1).plan_us.size(), 5U);
  EXPECT_THROW(comparison.add(machine.part({0, 1, 2}, 5, 2)), base::InternalError);
  comparison.take_out(0);  // nothing to compare with
  EXPECT_TRUE(comparison.next_plans().empty());
}

TEST(Comparison, ABusyMachineHasNoTime) {
  Comparison comparison(3, 40);
  const Sampler sampler = [](int plan) { return Sample{1e-3, plan == 1}; };
  while (!comparison.next_plans().empty())
    comparison.add(time_pairs(3, comparison.next_pairs(), sampler, comparison.next_part()));
  EXPECT_EQ(comparison.series(1).outcome, Outcome::noisy);
  EXPECT_EQ(comparison.series(1).dropped, 120);
  EXPECT_EQ(comparison.series(2).outcome, Outcome::ok);
}

TEST(Comparison, TheBaselineAloneIsTimed) {
  Machine machine{.seconds = {2e-3}};
  const Comparison comparison = machine.compare(40);
  EXPECT_EQ(comparison.series(0).outcome, Outcome::ok);
  EXPECT_EQ(comparison.series(0).plan_us, std::vector<double>(40, 2000.0));
}

}  // namespace
}  // namespace fusetune::measure
