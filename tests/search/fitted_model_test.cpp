// The cost model behind the strategies' interfaces, and tile tuning.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "lower/schedule.h"
#include "model/synthetic.h"
#include "search/plan_model.h"
#include "search/random_source.h"
#include "search/segment_model.h"
#include "search/tile_tuning.h"

namespace fusetune::search {
namespace {

using model::small_problem;

/// Each kernel costs something, hand-written attention saves something.
double time_of(const plan::FusionPlan& plan) {
  return 100 + 10 * plan.kernel_count() - (plan.hand_written() ? 30 : 0);
}

std::vector<TimedPlan> sample(std::size_t count) {
  std::vector<plan::FusionPlan> plans = plan::all_plans();
  RandomSource(7).shuffle(plans);
  std::vector<TimedPlan> timed;
  for (std::size_t i = 0; i < count; ++i) {
    const double us = time_of(plans[i]);
    timed.push_back({plans[i], us, true, us - 1, us + 1});
  }
  return timed;
}

void expect_learns(const std::optional<block::Problem>& problem) {
  FittedPlanModel model(problem, {});
  EXPECT_FALSE(model.ready());
  EXPECT_NE(model.fit(sample(5)), "") << "five plans are too few";
  EXPECT_FALSE(model.ready());
  EXPECT_TRUE(model.evaluate().groups.empty());
  EXPECT_EQ(model.fit(sample(300)), "");
  ASSERT_TRUE(model.ready());
  const model::Evaluation evaluation = model.evaluate();
  ASSERT_EQ(evaluation.groups.size(), 1u);
  EXPECT_EQ(evaluation.groups[0].rows, 300u);
  EXPECT_GT(evaluation.groups[0].spearman, 0.9);
  EXPECT_NEAR(evaluation.groups[0].noise_ceiling, 1, 1e-9) << "both halves agree";
  EXPECT_GT(evaluation.groups[0].auc, 0.9);
  EXPECT_NE(model.fit(sample(5)), "");
  EXPECT_TRUE(model.ready()) << "the last model stays";
  const std::vector<plan::FusionPlan> plans = {plan::FusionPlan::unfused(), plan::FusionPlan::all_fused()};
  const auto predictions = model.predict(plans);
  EXPECT_NEAR(predictions[0].time_us / time_of(plans[0]), 1, 0.1);
  EXPECT_LT(predictions[1].time_us, predictions[0].time_us);
  EXPECT_FALSE(predictions[0].high);
  EXPECT_TRUE(predictions[1].high);
}

TEST(FittedPlanModel, LearnsWhatPlansOfAProblemTake) { expect_learns(small_problem()); }
TEST(FittedPlanModel, LearnsFromBitsAlone) { expect_learns(std::nullopt); }

void expect_learns_schedules(const block::Problem& problem, const lower::Target& target) {
  FittedSegmentModel model(problem, {target, 1 << 20}, 0);
  std::vector<TimedCandidate> timed;
  std::vector<Candidate> candidates;
  const Space space = segment_space(problem, target);
  for (int variant = 0; variant < plan::kVariantCount; ++variant)
    for (const lower::AnySchedule& schedule : space.schedules(variant, {})) {
      const int size = plan::all_variants()[static_cast<std::size_t>(variant)].segment.size();
      candidates.push_back({variant, schedule});
      timed.push_back({candidates.back(), 10.0 * size, size == 1});
    }
  EXPECT_EQ(model.fit(timed), "");
  ASSERT_TRUE(model.ready());
  EXPECT_EQ(model.evaluate().groups.at(0).rows, timed.size());
  const auto alone = static_cast<int>(
      std::count_if(timed.begin(), timed.end(), [](const TimedCandidate& one) { return one.high; }));
  ASSERT_TRUE(model.threshold());
  EXPECT_EQ(model.threshold()->fast, alone) << "each held out once";
  EXPECT_LE(model.threshold()->chance, PruningThreshold::kMiss);
  const std::vector<bool> high = model.are_high(candidates);
  for (std::size_t i = 0; i < candidates.size(); ++i)
    EXPECT_EQ(high[i], timed[i].high) << candidates[i].schedule.to_string();
}

TEST(FittedSegmentModel, LearnsWhichSchedulesOfACpuAreFast) {
  expect_learns_schedules(small_problem(), lower::CpuTarget{});
}

TEST(FittedSegmentModel, LearnsWhichSchedulesOfAGpuAreFast) {
  lower::GpuTarget target;
  target.library = lower::GpuLibrary{.version = "some", .missing = {}};
  expect_learns_schedules(small_problem(), target);
}

TEST(TileTuning, TimesTheFourProductsAndNamesTheirTiles) {
  const block::Problem problem = small_problem();
  const Space space = segment_space(problem, {});
  TileTuning tuning(space, 1);
  Incumbents best;
  std::set<int> variants;
  int count = 0;
  for (auto asked = tuning.ask(4); !asked.empty(); asked = tuning.ask(4))
    for (const Candidate& candidate : asked) {
      variants.insert(candidate.variant);
      best.tell(candidate, {true, 100.0 + candidate.schedule.cpu()->tile_rows});
      ++count;
    }
  EXPECT_EQ(variants, (std::set<int>{lone_variant(0), lone_variant(7), lone_variant(10), lone_variant(12)}));
  EXPECT_EQ(count, tuning.expected());
  const int whole = plan::variant_index({{0, 14}, false});
  EXPECT_EQ(tuned_tile(best, whole).rows, best[lone_variant(0)]->schedule.cpu()->tile_rows);
  EXPECT_EQ(tuned_tile(best, plan::variant_index({{3, 4}, false})), GemmTile{})
      << "it has no product of weights";
}

TEST(TileTuning, WhatALibraryComputesFastestHasNoTileForOthers) {
  lower::GpuTarget target;
  target.library = lower::GpuLibrary{.version = "some", .missing = {}};
  TileTuning tuning(segment_space(small_problem(), target), 1);
  const int alone = lone_variant(12);
  Incumbents best;
  lower::AnySchedule fastest;  // of our kernels
  int kernels = 0, products = 0;
  for (const Candidate& candidate : tuning.ask(tuning.expected())) {
    if (candidate.variant != alone) continue;
    const bool own = candidate.schedule.gpu()->product == lower::GpuProduct::generated;
    if (own) fastest = candidate.schedule;
    best.tell(candidate, {true, own ? 100.0 - ++kernels : 1.0});
    products += own ? 0 : 1;
  }
  ASSERT_GT(kernels, 1);
  EXPECT_EQ(products, 1);
  EXPECT_EQ(best[alone]->schedule.to_string(), "product=library");
  EXPECT_EQ(tuned_tile(best, plan::variant_index({{12, 13}, false})), gemm_tile(fastest));
}

}  // namespace
}  // namespace fusetune::search
