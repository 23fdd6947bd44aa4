// Strategies compared on recorded times, and what measuring a kernel costs beside a plan.
#include "cli/strategy_comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/text.h"
#include "search/recorded_prior.h"

namespace fusetune::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

constexpr int kRepeats = 3;

double kernel_us(int variant) {
  return 10.0 + plan::all_variants()[static_cast<std::size_t>(variant)].segment.size();
}

RecordedKernels recorded_kernels() {
  RecordedKernels kernels{
      {}, lower::CpuTarget{.isa = lower::Isa::avx2}, {.kernel_s = 0.05, .plan_s = 0.2, .source = "a test"}};
  for (int variant = 0; variant < plan::kVariantCount; ++variant)
    kernels.recordings.push_back({variant, lower::Schedule{}.to_string(), {true, kernel_us(variant)}});
  return kernels;
}

/// About 175 plans.
std::vector<search::TimedPlan> recorded_plans() {
  std::vector<search::TimedPlan> recorded;
  for (std::size_t i = 0; i < plan::all_plans().size(); i += 100) {
    const plan::FusionPlan& plan = plan::all_plans()[i];
    double us = 0;
    for (const plan::SegmentVariant& variant : plan.variants()) us += kernel_us(plan::variant_index(variant));
    recorded.push_back({plan, us * (1 + 0.001 * static_cast<double>(i % 7)), true});
  }
  return recorded;
}

ComparisonOptions options_for(std::vector<std::int64_t> trials) {
  ComparisonOptions options;
  options.strategies = comparable_strategies();
  options.trials = std::move(trials);
  options.repeats = kRepeats;
  options.problem = block::Problem{};
  return options;
}

StrategyComparison compared(std::vector<std::int64_t> trials) {
  const RecordedKernels kernels = recorded_kernels();
  return compare_strategies(recorded_plans(), &kernels, options_for(std::move(trials)));
}

TEST(StrategyComparison, ComparesWhatTheResearchComparesAndGuided) {
  EXPECT_THAT(comparable_strategies(), ElementsAre("mask", "bayesian", "random", "anneal", "guided"));
}

TEST(StrategyComparison, WhoAsksForEverythingHasNoRegret) {
  const auto all = static_cast<std::int64_t>(recorded_plans().size());
  for (const ReplayedStrategy& search : compared({all}).searches) {
    if (search.strategy != "random") continue;
    EXPECT_EQ(search.plans, all);
    EXPECT_EQ(search.regret, 0);
  }
}

TEST(StrategyComparison, SpendsNoMoreThanItMay) {
  for (const ReplayedStrategy& search : compared({8, 64}).searches) {
    if (search.trials) {
      EXPECT_LE(search.spent, static_cast<double>(*search.trials)) << search.strategy;
    }
    EXPECT_DOUBLE_EQ(search.spent,
                     static_cast<double>(search.plans) + 0.25 * static_cast<double>(search.kernels));
    const bool kernels_first = search.strategy == "guided" && search.trials.value_or(64) == 64;
    EXPECT_EQ(search.kernels > 0, kernels_first) << "eight trials do not pay for kernels";
  }
}

TEST(StrategyComparison, CurvesNeverRise) {
  const StrategyComparison comparison = compared({64});
  for (const report::RegretCurve& curve : regret_curves(comparison)) {
    ASSERT_EQ(curve.points.size(), 64u);
    for (std::size_t i = 1; i < curve.points.size(); ++i) {
      const auto &before = curve.points[i - 1], &now = curve.points[i];
      if (std::isnan(before.mean)) continue;
      EXPECT_LE(now.mean, before.mean + 1e-12) << curve.name << " " << i;
      EXPECT_LE(now.least, before.least) << curve.name << " " << i;
      EXPECT_LE(now.most, before.most) << curve.name << " " << i;
      EXPECT_GE(now.least, 0);
    }
  }
}

TEST(StrategyComparison, CurvesEndAtTheRegretOfTheirSearches) {
  const StrategyComparison comparison = compared({64});
  for (const ReplayedStrategy& search : comparison.searches)
    if (search.trials) {
      EXPECT_DOUBLE_EQ(search.regret_after(64, comparison.best_us), search.regret);
    }
}

TEST(StrategyComparison, TheSameSeedIsTheSameTable) {
  const RecordedKernels kernels = recorded_kernels();
  const auto text = [&](std::uint64_t seed) {
    ComparisonOptions options = options_for({16, 32});
    options.seed = seed;
    const auto comparison = compare_strategies(recorded_plans(), &kernels, options);
    return budget_table(comparison, &kernels).to_csv() + curve_table(comparison, "best_us").to_csv();
  };
  EXPECT_EQ(text(5), text(5));
  EXPECT_NE(text(5), text(500));
}

TEST(StrategyComparison, TablesHaveTheirColumns) {
  const RecordedKernels kernels = recorded_kernels();
  const StrategyComparison comparison = compared({16, 32});
  const report::Table budgets = budget_table(comparison, &kernels);
  EXPECT_THAT(
      budgets.to_csv(),
      StartsWith("strategy,trials,mean_regret_percent,worst_regret_percent,searches,found_best,mean_timed,"
                 "mean_kernels,mean_spent,mean_spent_s,by_prior\n"));
  EXPECT_EQ(budgets.size(), 5u * 2 + 1) << "guided also to its own end";
  EXPECT_THAT(budgets.to_csv(), HasSubstr("\nguided,,"));
  const report::Table curves = curve_table(comparison, "best_us");
  EXPECT_THAT(curves.to_csv(), StartsWith("strategy,search,trials,mask,best_us,regret_percent\nmask,1,1,"));
  EXPECT_EQ(curves.size(), 5u * kRepeats * 32) << "of those with the most trials";
  const std::vector<report::RegretCurve> means = regret_curves(comparison);
  EXPECT_THAT(short_curve_table(means).to_csv(), StartsWith("trials,mask,bayesian,random,anneal,guided\n1,"));
  EXPECT_EQ(short_curve_table(means).size(), 6u);
}

TEST(StrategyComparison, CountsWhoTrustedAPrior) {
  const RecordedKernels kernels = recorded_kernels();
  ComparisonOptions options = options_for({64});
  options.strategies = {"guided", "random"};
  options.repeats = 1;
  options.priors = {
      std::make_shared<search::RecordedPrior>("the same times", kernels.recordings, kernels.device.target)};
  for (const ReplayedStrategy& search : compare_strategies(recorded_plans(), &kernels, options).searches)
    EXPECT_EQ(search.by_prior, search.strategy == "guided") << search.strategy;
  options.priors.clear();
  for (const ReplayedStrategy& search : compare_strategies(recorded_plans(), &kernels, options).searches)
    EXPECT_FALSE(search.by_prior) << search.strategy;
}

TEST(StrategyComparison, WithoutKernelsThereAreNoSeconds) {
  ComparisonOptions options = options_for({8});
  options.strategies = {"random"};
  const auto comparison = compare_strategies(recorded_plans(), nullptr, options);
  EXPECT_TRUE(base::trim(budget_table(comparison, nullptr).to_csv()).ends_with(",8,0,8,,0"));
}

/// A kernel and a plan with times, and the CPU they are of.
store::Contents measured() {
  store::Contents contents;
  contents.environments = {{"env", {{"cpus", "2"}}}};
  store::TuningRecord kernel;
  kernel.key.settings = "samples=10 min_time=0.001";
  kernel.measurement.outcome = measure::Outcome::ok;
  kernel.measurement.time.median_us = 100;
  store::PlanRecord plan;
  plan.settings = kernel.key.settings;
  plan.measurement = kernel.measurement;
  plan.measurement.time.median_us = 4000;
  contents.segments = {kernel};
  contents.plans = {plan};
  return contents;
}

void add_run(store::Contents& contents, const std::string& strategy, const std::string& result) {
  store::RunRecord run;
  run.state = store::RunState::finished;
  run.options = "{\"strategy\": \"" + strategy + "\"}";
  run.result = result;
  contents.runs.push_back(run);
}

TEST(MeasuringCost, IsWhatSearchesTook) {
  store::Contents contents = measured();
  add_run(contents, "exhaustive", R"({"took": {"measure_s": 20, "measured": 100}})");
  // As searches said it before: 50 s, of which two CPUs compiled 80 kernels at half a second each for 20.
  add_run(contents, "random",
          R"({"seconds": 50, "search": {"measured": 60, "compiled": 80, "median_compile_seconds": 0.5}})");
  add_run(contents, "guided", R"({"took": {"measure_s": 9000, "measured": 100}})");
  const MeasuringCost cost = measuring_cost(contents);
  EXPECT_DOUBLE_EQ(cost.kernel_s, 0.2);
  EXPECT_DOUBLE_EQ(cost.plan_s, 0.5);
  EXPECT_DOUBLE_EQ(cost.kernel_trials(), 0.4);
  EXPECT_THAT(cost.source, HasSubstr("100 kernels and 60 plans"));
}

TEST(MeasuringCost, IsThatOfTheSamplesWhereNoSearchSays) {
  store::Contents contents = measured();
  add_run(contents, "exhaustive", "");
  add_run(contents, "random", R"({"took": 3})");
  add_run(contents, "mask", R"({"took": {"measure_s": 1, "measured": 2}})");  // too few
  const MeasuringCost cost = measuring_cost(contents);
  EXPECT_DOUBLE_EQ(cost.kernel_s, 0.005 + 11 * 0.001);
  EXPECT_DOUBLE_EQ(cost.plan_s, 0.005 + 11 * 0.004);
  EXPECT_THAT(cost.source, HasSubstr("timing protocol"));
  contents.segments[0].measurement.reference_us = contents.plans[0].measurement.reference_us = 4000;
  EXPECT_DOUBLE_EQ(measuring_cost(contents).plan_s, 0.005 + (11 + 2 * 3) * 0.004)
      << "between two turns of the reference";
}

}  // namespace
}  // namespace fusetune::cli
