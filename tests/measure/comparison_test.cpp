#include "measure/comparison.h"

#include <gtest/gtest.h>

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
  std::vector<PairSeries> process(const std::vector<int>& plans, int pairs, int number) {
    std::vector<double> here;
    for (const int plan : plans)
      here.push_back(seconds[static_cast<std::size_t>(plan)] * deviate(between_processes));
    const Turn turn = [&](int index, int count) {
      std::vector<Sample> samples;
      for (int i = 0; i < count; ++i)
        samples.push_back({here[static_cast<std::size_t>(index)] * deviate(noise), false});
      return samples;
    };
    return time_pairs(static_cast<int>(plans.size()), pairs, turn, number);
  }

  Comparison compare(int pairs, Looks looks = Looks::early) {
    Comparison comparison(static_cast<int>(seconds.size()), pairs, looks);
    while (!comparison.next_plans().empty())
      comparison.add(process(comparison.next_plans(), comparison.next_pairs(), comparison.next_process()));
    return comparison;
  }
};

double ratio(const Comparison& comparison, int plan) {
  const PairSeries& series = comparison.series(plan);
  return median(paired_ratios(series.baseline_us, series.plan_us));
}

/// Of 200 comparisons of five equal plans, those that claim a difference.
template <typename IntervalOf>
int claims(double between_processes, const IntervalOf& interval_of) {
  int claims = 0;
  for (unsigned run = 0; run < 200; ++run) {
    Machine machine{.seconds = {1, 1, 1, 1, 1}, .between_processes = between_processes, .noise = 0.05};
    machine.random.seed(run);
    const Comparison comparison = machine.compare(160);
    bool claimed = false;
    for (int plan = 1; plan < 5; ++plan) {
      const Interval interval = interval_of(comparison, plan);
      claimed = claimed || interval.low > 1 || interval.high < 1;
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
        Spread{20, {3, 3, 3, 3, 2, 2, 2, 2}}, Spread{10, {3, 3, 2, 2}}, Spread{4, {2, 2}}, Spread{1, {1}}}) {
    Machine machine{.seconds = {1, 1, 1}};
    Comparison comparison(3, spread.pairs);
    std::vector<int> taken;
    while (!comparison.next_plans().empty()) {
      EXPECT_EQ(comparison.next_process(), static_cast<int>(taken.size()));
      taken.push_back(comparison.next_pairs());
      comparison.add(machine.process(comparison.next_plans(), taken.back(), comparison.next_process()));
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

TEST(Comparison, NobodyIsDroppedWhereTheRatioCounts) {
  Machine machine{.seconds = {1e-3, 1.5e-3}, .noise = 0.01};
  const Comparison comparison = machine.compare(160, Looks::at_the_end);
  EXPECT_EQ(comparison.series(1).plan_us.size(), 160U);
  EXPECT_NEAR(ratio(comparison, 1), 1.5, 0.01);
  // The error probability that early looks would have spent is left for the end.
  Machine same{.seconds = {1e-3, 1.001e-3}, .noise = 0.01};
  Machine again = same;
  const Interval at_the_end = same.compare(160, Looks::at_the_end).interval(1);
  const Interval early = again.compare(160).interval(1);
  EXPECT_LT(at_the_end.high - at_the_end.low, early.high - early.low);
}

/// As of a plan beside its segments: four pairs of each of eight processes.
TEST(Comparison, ThirtyTwoPairsHoldTheRatio) {
  for (const double between_processes : {0.0, 0.01, 0.03}) {
    int missed = 0;
    for (unsigned run = 0; run < 400; ++run) {
      Machine machine{.seconds = {1, 1}, .between_processes = between_processes, .noise = 0.02};
      machine.random.seed(run);
      const Interval interval = machine.compare(32, Looks::at_the_end).interval(1);
      missed += interval.low > 1 || interval.high < 1;
    }
    EXPECT_LE(missed, 29) << between_processes;  // 5 % of 400; more but for one time in forty
  }
}

TEST(Comparison, EqualPlansRarelyDiffer) {
  const auto interval = [](const Comparison& comparison, int plan) { return comparison.interval(plan); };
  // 5 % of 200; at most 16 but for one time in forty.
  EXPECT_LE(claims(0, interval), 16);
  EXPECT_LE(claims(0.01, interval), 16);
  EXPECT_LE(claims(0.03, interval), 16);
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
    PlanSeries plan{.series = {}, .pairs_of_process = {20, 0, 10, 30, 20}};  // one was disturbed throughout
    for (int i = 0; i < 80; ++i) {
      plan.series.baseline_us.push_back(1);
      plan.series.plan_us.push_back(1 + 0.01 * normal(random));
    }
    sum += design_effect(plan).value();
  }
  EXPECT_NEAR(sum / kRuns, 1, 0.1);
}

TEST(Comparison, DesignEffectOfProcessesThatDisagreeIsTheirSize) {
  PlanSeries plan{.series = {}, .pairs_of_process = {10, 10, 10, 10}};
  for (int i = 0; i < 40; ++i) {
    plan.series.baseline_us.push_back(1);
    plan.series.plan_us.push_back(i / 10 % 2 == 0 ? 1.1 : 0.9);
  }
  EXPECT_DOUBLE_EQ(design_effect(plan).value(), 40.0 / 3);  // each sum of signs is 10: 4 * 10 / 3
  plan.pairs_of_process = {40};
  EXPECT_FALSE(design_effect(plan));
}

TEST(Comparison, AFailedPlanIsNotTimedAgain) {
  Machine machine{.seconds = {1, 1, 1}};
  Comparison comparison(3, 40);
  comparison.add(machine.process({0, 1, 2}, 5, 0));
  comparison.take_out(1);
  EXPECT_EQ(comparison.next_plans(), (std::vector<int>{0, 2}));
  comparison.add(machine.process({0, 2}, 5, 1));
  EXPECT_EQ(comparison.series(2).plan_us.size(), 10U);
  EXPECT_EQ(comparison.series(1).plan_us.size(), 5U);
  EXPECT_THROW(comparison.add(machine.process({0, 1, 2}, 5, 2)), base::InternalError);
  comparison.take_out(0);  // nothing to compare with
  EXPECT_TRUE(comparison.next_plans().empty());
}

TEST(Comparison, ProcessesThatDisagreeEntirelyClaimNothing) {
  Comparison comparison(2, 40);
  for (int process = 0; process < 8; ++process) {
    const double plan_us = process % 2 == 0 ? 1.1 : 0.9;
    comparison.add(
        {{.outcome = Outcome::ok, .baseline_us = std::vector(5, 1.0), .plan_us = std::vector(5, 1.0)},
         {.outcome = Outcome::ok, .baseline_us = std::vector(5, 1.0), .plan_us = std::vector(5, plan_us)}});
  }
  const Interval interval = comparison.interval(1);
  EXPECT_EQ(interval.low, 0.9);
  EXPECT_EQ(interval.high, 1.1);
}

TEST(Comparison, WithoutOthersTheBaselineIsTimedAlone) {
  for (const int process : {0, 3}) {
    Machine machine{.seconds = {1, 1}};
    Comparison comparison(2, 40);
    while (comparison.next_process() < process) comparison.add(machine.process({0, 1}, 5, 0));
    comparison.take_out(1);
    EXPECT_EQ(comparison.next_plans(), (std::vector<int>{0}));
    while (!comparison.next_plans().empty())
      comparison.add(machine.process({0}, comparison.next_pairs(), comparison.next_process()));
    EXPECT_EQ(comparison.series(0).outcome, Outcome::ok) << process;
    EXPECT_EQ(comparison.series(0).plan_us.size(), 40U) << process;
  }
}

TEST(Comparison, LaterProcessesMakeUpForPairsThatWereLost) {
  Machine machine{.seconds = {1, 1, 1}};
  Comparison comparison(3, 40);
  for (int process = 0; process < 2; ++process) {  // plan 1 is disturbed in the first two
    std::vector<PairSeries> taken = machine.process({0, 1, 2}, comparison.next_pairs(), process);
    taken[1] = {.outcome = Outcome::noisy, .baseline_us = {}, .plan_us = {}, .dropped = 15};
    comparison.add(taken);
  }
  EXPECT_EQ(comparison.next_pairs(), 7);  // 40 in six
  while (!comparison.next_plans().empty())
    comparison.add(
        machine.process(comparison.next_plans(), comparison.next_pairs(), comparison.next_process()));
  EXPECT_EQ(comparison.series(1).outcome, Outcome::ok);
  EXPECT_EQ(comparison.series(1).plan_us.size(), 40U);
}

TEST(Comparison, ABusyMachineHasNoTime) {
  Comparison comparison(3, 40);
  const Turn turn = [](int plan, int count) {
    return std::vector<Sample>(static_cast<std::size_t>(count), Sample{1e-3, plan == 1});
  };
  while (!comparison.next_plans().empty())
    comparison.add(time_pairs(3, comparison.next_pairs(), turn, comparison.next_process()));
  EXPECT_EQ(comparison.series(1).outcome, Outcome::noisy);
  EXPECT_GE(comparison.series(1).dropped, 3 * 40);
  EXPECT_LE(comparison.series(1).dropped, 2 * 3 * 40);  // no process takes more than twice its share
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
