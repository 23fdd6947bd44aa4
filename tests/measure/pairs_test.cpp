#include "measure/pairs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "measure/statistics.h"

namespace fusetune::measure {
namespace {

/// A machine whose speed drifts while it is timed: plan i takes `seconds[i]` times the drift, plus some
/// noise.
struct Machine {
  std::vector<double> seconds;
  double drift_per_sample = 0;
  double noise = 0;
  std::mt19937_64 random{11};
  std::vector<int> order = {};  // of turns
  double speed = 1;

  Turn turn() {
    return [this](int plan, int count) {
      order.push_back(plan);
      std::vector<Sample> samples;
      for (int i = 0; i < count; ++i) {
        speed += drift_per_sample;
        const double jitter = 1 + noise * std::normal_distribution<double>()(random);
        samples.push_back({seconds[static_cast<std::size_t>(plan)] * speed * jitter, false});
      }
      return samples;
    };
  }
};

double ratio(const PairSeries& series) { return median(paired_ratios(series.baseline_us, series.plan_us)); }

TEST(Pairs, EveryPlanStandsBesideABaselineOnAlternatingSides) {
  Machine machine{.seconds = {1, 1, 1, 1}};
  const auto series = time_pairs(4, 10 * kSamplesPerTurn, machine.turn(), 3);
  ASSERT_EQ(series.size(), 4U);
  std::map<int, int> before, after;
  for (std::size_t i = 0; i < machine.order.size(); ++i) {
    const int plan = machine.order[i];
    if (plan == 0) continue;
    const bool left_of_base = i + 1 < machine.order.size() && machine.order[i + 1] == 0;
    const bool right_of_base = i > 0 && machine.order[i - 1] == 0;
    ASSERT_TRUE(left_of_base || right_of_base) << i;
  }
  for (int plan = 1; plan < 4; ++plan) {
    EXPECT_EQ(std::count(machine.order.begin(), machine.order.end(), plan), 10);
    EXPECT_EQ(series[static_cast<std::size_t>(plan)].plan_us.size(), 10U * kSamplesPerTurn);
    EXPECT_EQ(series[static_cast<std::size_t>(plan)].outcome, Outcome::ok);
  }
  // Two plans share a turn of the baseline: 1.5 samples for each ratio, 2 where one is alone.
  EXPECT_EQ(std::count(machine.order.begin(), machine.order.end(), 0), 20);
}

TEST(Pairs, OnePlanAlternatesAbBa) {
  Machine machine{.seconds = {1, 1}};
  time_pairs(2, 4 * kSamplesPerTurn, machine.turn(), 0);
  EXPECT_EQ(machine.order, (std::vector<int>{1, 0, 0, 1, 1, 0, 0, 1}));
}

TEST(Pairs, TheNextPartBeginsOnTheOtherSide) {
  Machine machine{.seconds = {1, 1}};
  time_pairs(2, 3 * kSamplesPerTurn, machine.turn(), 1);
  EXPECT_EQ(machine.order, (std::vector<int>{0, 1, 1, 0, 0, 1}));
}

TEST(Pairs, DriftCancels) {
  Machine machine{.seconds = {1e-3, 1e-3, 1.02e-3}, .drift_per_sample = 0.002};  // 60 % slower at the end
  const auto series = time_pairs(3, 100, machine.turn(), 5);
  EXPECT_NEAR(ratio(series[1]), 1.0, 2e-3);
  EXPECT_NEAR(ratio(series[2]), 1.02, 2e-3);
}

TEST(Pairs, TurnsAreAboutAsLong) {
  std::vector<int> counts;
  const Turn turn = [&counts](int, int samples) {
    counts.push_back(samples);
    return std::vector<Sample>(static_cast<std::size_t>(samples), Sample{1e-3, false});
  };
  const auto series = time_pairs(2, 12, turn, 0);
  EXPECT_EQ(counts, (std::vector<int>{4, 4, 4, 4, 4, 4}));
  EXPECT_EQ(series[1].plan_us.size(), 12U);
}

TEST(Pairs, SamplesAreCountedBeforehand) {
  for (int plans = 1; plans <= 5; ++plans) {
    int taken = 0;
    const Turn turn = [&taken](int, int samples) {
      taken += samples;
      return std::vector<Sample>(static_cast<std::size_t>(samples), Sample{1e-3, false});
    };
    time_pairs(plans, 32, turn, 1);
    EXPECT_EQ(taken, samples_of_pairs(plans, 32)) << plans;
  }
}

/// Turns in which sample number n of all is interrupted where `is_interrupted(plan, n)`.
template <typename IsInterrupted>
Turn interrupted_turn(IsInterrupted is_interrupted) {
  return [is_interrupted, n = 0](int plan, int count) mutable {
    std::vector<Sample> samples;
    for (int i = 0; i < count; ++i) samples.push_back({1e-3, is_interrupted(plan, ++n)});
    return samples;
  };
}

TEST(Pairs, InterruptedSamplesAreTakenAgain) {
  const auto series = time_pairs(2, 20, interrupted_turn([](int, int n) { return n % 7 == 0; }), 1);
  EXPECT_EQ(series[1].outcome, Outcome::ok);
  EXPECT_EQ(series[1].plan_us.size(), 20U);
  EXPECT_GT(series[1].dropped, 0);
}

TEST(Pairs, AMachineThatIsNeverQuietIsNoisy) {
  const auto series = time_pairs(3, 20, interrupted_turn([](int plan, int) { return plan == 1; }), 1);
  EXPECT_EQ(series[1].outcome, Outcome::noisy);
  EXPECT_EQ(series[1].dropped, 60);
  EXPECT_EQ(series[2].outcome, Outcome::ok);
  EXPECT_EQ(series[2].plan_us.size(), 20U);
}

TEST(Pairs, TheBaselineAloneIsTimed) {
  Machine machine{.seconds = {2e-3}};
  const auto series = time_pairs(1, 5, machine.turn(), 1);
  EXPECT_EQ(series[0].outcome, Outcome::ok);
  EXPECT_EQ(series[0].baseline_us, std::vector<double>(5, 2000.0));
}

}  // namespace
}  // namespace fusetune::measure
