// The Gaussian process over plans, and Bayesian optimisation with it: synthetic laws, no device anywhere.
#include "search/plan_surrogate.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "search/bayesian.h"
#include "search/random_source.h"
#include "search/selection.h"

namespace fusetune::search {
namespace {

using plan::FusionPlan;
using Law = std::function<double(const FusionPlan&)>;  // the logarithm of a plan's time
using Samples = std::vector<PlanSurrogate::Sample>;

Samples samples_of(const Law& law, std::size_t count, int least_kernels) {
  std::vector<FusionPlan> plans = plan::all_plans();
  RandomSource(3).shuffle(plans);
  Samples samples;
  for (const FusionPlan& plan : plans)
    if (samples.size() < count && plan.kernel_count() >= least_kernels) samples.push_back({plan, law(plan)});
  return samples;
}

/// Every border has its cost, a long kernel one of its own.
double bumpy(const FusionPlan& plan) {
  double log_time = 7;
  for (int border = 0; border < 14; ++border)
    if ((plan.borders() >> border & 1) != 0) log_time += 0.004 * ((border * 5) % 7 - 2);
  for (const plan::SegmentVariant& variant : plan.variants())
    log_time += 0.002 * ((plan::variant_index(variant) * 37) % 11 - 5);
  return log_time;
}

TEST(PlanSurrogate, KnowsNothingUntilItSawSomething) {
  PlanSurrogate surrogate;
  EXPECT_EQ(surrogate.mean(FusionPlan::unfused()), 0);
  surrogate.fit(Samples{{FusionPlan::all_fused(), 0.05}});
  EXPECT_NEAR(surrogate.mean(FusionPlan::unfused()), 0.05, 1e-12);
  EXPECT_GT(surrogate.believe(FusionPlan::unfused()).deviation,
            surrogate.believe(FusionPlan::all_fused()).deviation);
  surrogate.fit({});
  EXPECT_EQ(surrogate.mean(FusionPlan::unfused()), 0) << "it learns from what it is given alone";
}

TEST(PlanSurrogate, ReachesBeyondTheKernelCountsItSaw) {
  const Law law = [](const FusionPlan& plan) { return 0.01 + 0.007 * (plan.kernel_count() - 1); };
  PlanSurrogate surrogate;
  surrogate.fit(samples_of(law, 20, 7));
  for (const FusionPlan& plan : {FusionPlan::all_fused(), FusionPlan::byte_transformer()}) {
    const PlanSurrogate::Belief belief = surrogate.believe(plan);
    EXPECT_LT(std::abs(belief.mean - law(plan)), 3 * belief.deviation) << plan.to_string();
    EXPECT_NEAR(belief.mean, law(plan), 0.03) << plan.to_string();
  }
}

TEST(PlanSurrogate, LearnsWhatASingleBorderCostsAndHandWrittenAttention) {
  const Law law = [](const FusionPlan& plan) {
    return 0.005 * (plan.kernel_count() - 1) + ((plan.borders() >> 6 & 1) != 0 ? 0.04 : 0) -
           (plan.hand_written() ? 0.02 : 0);
  };
  PlanSurrogate surrogate;
  surrogate.fit(samples_of(law, 44, 1));
  double squares = 0;
  for (const FusionPlan& plan : plan::all_plans()) {
    const double error = surrogate.mean(plan) - law(plan);
    squares += error * error / plan::kPlanCount;
  }
  EXPECT_LT(std::sqrt(squares), 0.008);
}

TEST(PlanSurrogate, ItsDeviationIsThatOfItsErrors) {
  PlanSurrogate surrogate;
  surrogate.fit(samples_of(bumpy, 60, 1));
  int within = 0;
  for (const FusionPlan& plan : plan::all_plans()) {
    const PlanSurrogate::Belief belief = surrogate.believe(plan);
    EXPECT_DOUBLE_EQ(belief.mean, surrogate.mean(plan));
    within += std::abs(belief.mean - bumpy(plan)) <= 2 * belief.deviation ? 1 : 0;
  }
  EXPECT_GT(within, 0.9 * plan::kPlanCount);
}

TEST(PlanSurrogate, TakesATimingForUncertain) {
  Samples samples = samples_of(bumpy, 40, 1);
  const double truth = samples.front().log_time;
  samples.front().log_time -= 0.03;  // a lucky timing
  PlanSurrogate surrogate;
  surrogate.fit(samples);
  const double believed = surrogate.mean(samples.front().plan);
  EXPECT_GT(believed, truth - 0.03);
  EXPECT_LT(believed, truth + 0.01);
}

TEST(ExpectedImprovement, IsTheMeanOfWhatIsGained) {
  EXPECT_NEAR(expected_improvement({1, 0.1}, 1), 0.1 / std::sqrt(2 * M_PI), 1e-12);
  EXPECT_NEAR(expected_improvement({0.5, 0.01}, 1), 0.5, 1e-9);
  EXPECT_NEAR(expected_improvement({1.5, 0.01}, 1), 0, 1e-9);
  EXPECT_EQ(expected_improvement({1.5, 0}, 1), 0);
  EXPECT_EQ(expected_improvement({0.75, 0}, 1), 0.25);
}

/// Asks and tells up to `trials`; the plans in the order they were asked for.
std::vector<FusionPlan> drive(BayesianPlans& strategy, const std::function<Trial(const FusionPlan&)>& measure,
                              std::size_t trials, int limit = 32) {
  std::vector<FusionPlan> asked;
  while (asked.size() < trials) {
    const auto batch = strategy.ask(std::min(limit, static_cast<int>(trials - asked.size())));
    if (batch.empty()) break;
    for (const PlanCandidate& one : batch) {
      asked.push_back(one.plan);
      strategy.tell(one.plan, measure(one.plan));
    }
  }
  return asked;
}

Trial exact(const FusionPlan& plan) { return {true, std::exp(bumpy(plan))}; }

TEST(BayesianPlans, FindsTheBestOfAllPlansInAFewDozen) {
  double best = 1e9;
  for (const FusionPlan& plan : plan::all_plans()) best = std::min(best, bumpy(plan));
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    BayesianPlans strategy({plan::all_plans(), 64}, seed);
    double found = 1e9;
    for (const FusionPlan& plan : drive(strategy, exact, 64)) found = std::min(found, bumpy(plan));
    EXPECT_LT(found - best, 0.01) << seed;
  }
}

TEST(BayesianPlans, BeginsWithTheReferencePlansAndMarksWhatItDrew) {
  BayesianPlans strategy({plan::all_plans(), 64}, 1);
  const auto first = strategy.ask(100);
  EXPECT_TRUE(strategy.ask(100).empty()) << "it waits for results";
  for (const ReferencePlan& reference : reference_plans())
    EXPECT_EQ(std::count(first.begin(), first.end(), PlanCandidate{reference.plan, false}), 1)
        << reference.name;
  EXPECT_EQ(std::count_if(first.begin(), first.end(), [](const auto& one) { return one.uniform; }), 6);
}

TEST(BayesianPlans, AsksForEachPlanOnceAndRepeatsItselfWithTheSameSeed) {
  const auto run = [](std::uint64_t seed, int limit) {
    BayesianPlans strategy({plan::all_plans(), 40}, seed);
    return drive(strategy, exact, 40, limit);
  };
  const auto asked = run(1, 32);
  EXPECT_EQ(std::set<FusionPlan>(asked.begin(), asked.end()).size(), asked.size());
  EXPECT_EQ(run(1, 32), asked);
  EXPECT_EQ(run(1, 3), asked) << "how many it may ask for at once changes nothing";
  EXPECT_NE(run(2, 32), asked);
}

TEST(BayesianPlans, WithoutABudgetItEndsWhenNothingIsExpected) {
  BayesianPlans strategy({plan::all_plans()}, 1);
  const auto asked = drive(strategy, exact, plan::kPlanCount);
  EXPECT_LT(asked.size(), 400u);
  EXPECT_EQ(strategy.predicted(), plan::kPlanCount - static_cast<std::int64_t>(asked.size()));
}

TEST(BayesianPlans, PlansThatFailAreNotAskedForAgain) {
  const std::vector<FusionPlan>& all = plan::all_plans();
  const std::vector<FusionPlan> some(all.begin(), all.begin() + 50);
  BayesianPlans failing({some}, 1);
  EXPECT_EQ(drive(
                failing, [](const FusionPlan&) { return Trial{}; }, 1000)
                .size(),
            50u)
      << "while nothing runs, everything is tried";
  BayesianPlans half({some, 50}, 1);
  const auto asked = drive(
      half, [](const FusionPlan& plan) { return plan.kernel_count() % 2 == 0 ? exact(plan) : Trial{}; }, 50);
  EXPECT_EQ(std::set<FusionPlan>(asked.begin(), asked.end()).size(), 50u);
}

}  // namespace
}  // namespace fusetune::search
