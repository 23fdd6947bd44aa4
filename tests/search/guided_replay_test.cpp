// guided on recorded kernels and plans: what it may spend, and what it finds for it.
#include "search/guided_replay.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "search/plan_refinement.h"

namespace fusetune::search {
namespace {

constexpr double kBudget = 64, kKernelCost = 0.25;

/// Kernels take 10 us and 1 us per operator, a whole plan 2 % more per border.
double kernel_us(int variant) {
  const plan::SegmentVariant& one = plan::all_variants()[static_cast<std::size_t>(variant)];
  return 10.0 + one.segment.size() + (one.hand_written ? 0.5 : 0);
}

Replay kernels() {
  std::vector<Recording> recordings;
  for (int variant = 0; variant < plan::kVariantCount; ++variant)
    recordings.push_back({variant, lower::Schedule{}.to_string(), {true, kernel_us(variant)}});
  return Replay(recordings);
}

PlanReplay plans(std::size_t step = 1) {
  std::vector<TimedPlan> recorded;
  for (std::size_t i = 0; i < plan::all_plans().size(); i += step) {
    const plan::FusionPlan& plan = plan::all_plans()[i];
    double us = 0;
    for (const plan::SegmentVariant& variant : plan.variants()) us += kernel_us(plan::variant_index(variant));
    recorded.push_back({plan, us * (1 + 0.02 * (plan.kernel_count() - 1)), true});
  }
  return PlanReplay(recorded);
}

TEST(GuidedReplay, FindsTheBestPlanWhereItRunsToItsEnd) {
  const GuidedReplayResult found = replay_guided(kernels(), plans(), {.kernel_cost = kKernelCost});
  EXPECT_GT(found.kernels, plan::kVariantCount / 2)
      << "without a model only what is proved irrelevant is left out";
  EXPECT_LE(found.kernels, plan::kVariantCount);
  EXPECT_EQ(found.plans.regret, 0);
  EXPECT_DOUBLE_EQ(found.spent, kKernelCost * static_cast<double>(found.kernels) +
                                    static_cast<double>(found.plans.trials));
}

TEST(GuidedReplay, KernelsAreChargedBeforePlans) {
  const GuidedReplayResult found =
      replay_guided(kernels(), plans(), {.budget = kBudget, .kernel_cost = kKernelCost});
  ASSERT_FALSE(found.plans.improvements.empty());
  const double charged = kKernelCost * static_cast<double>(found.kernels);
  EXPECT_LE(charged, kBudget / (1 + kPlanShare));
  EXPECT_LE(found.spent, kBudget);
  EXPECT_GT(found.plans.trials, 0);
  EXPECT_GE(found.plans.improvements.front().spent, charged + 1);
}

TEST(GuidedReplay, ABudgetThatKernelsUseUpLeavesAFifthOfTheLimitForPlans) {
  const GuidedReplayResult found = replay_guided(kernels(), plans(), {.budget = kBudget, .kernel_cost = 1});
  EXPECT_EQ(found.kernels, static_cast<std::int64_t>(kBudget / (1 + kPlanShare)));
  EXPECT_GT(found.plans.trials, 0);
  EXPECT_LE(found.plans.trials, static_cast<std::int64_t>(kBudget) - found.kernels);
}

TEST(GuidedReplay, WithoutACompletePlanItHasNone) {
  const GuidedReplayResult found = replay_guided(kernels(), plans(), {.budget = 3, .kernel_cost = 1});
  EXPECT_EQ(found.plans.trials, 0);
  EXPECT_TRUE(std::isinf(found.plans.regret));
  EXPECT_TRUE(found.plans.improvements.empty());
}

TEST(GuidedReplay, AsksForRecordedPlansOnly) {
  const PlanReplay few = plans(500);
  const GuidedReplayResult found = replay_guided(kernels(), few, {.kernel_cost = kKernelCost});
  EXPECT_GT(found.plans.trials, 0);
  EXPECT_LE(found.plans.trials, static_cast<std::int64_t>(few.plans().size()));
  EXPECT_TRUE(few.measure(found.plans.best).ok);
}

TEST(GuidedReplay, TheSameSeedIsTheSameSearch) {
  const auto spent = [](std::uint64_t seed) {
    std::vector<double> all;
    const auto found =
        replay_guided(kernels(), plans(7), {.budget = kBudget, .kernel_cost = kKernelCost, .seed = seed});
    for (const Improvement& one : found.plans.improvements) {
      all.push_back(one.spent);
      all.push_back(one.time_us);
    }
    return all;
  };
  EXPECT_EQ(spent(3), spent(3));
}

TEST(GuidedReplay, ImprovementsImprove) {
  const auto found = replay_guided(kernels(), plans(7), {.budget = kBudget, .kernel_cost = kKernelCost});
  for (std::size_t i = 1; i < found.plans.improvements.size(); ++i) {
    EXPECT_LT(found.plans.improvements[i].time_us, found.plans.improvements[i - 1].time_us);
    EXPECT_GT(found.plans.improvements[i].spent, found.plans.improvements[i - 1].spent);
  }
}

TEST(GuidedReplay, AKernelHasACost) {
  EXPECT_THROW(replay_guided(kernels(), plans(500), {.kernel_cost = 0}), base::InternalError);
}

}  // namespace
}  // namespace fusetune::search
