#include "model/evaluation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "synthetic.h"

namespace fusetune::model {
namespace {

using testing::HasSubstr;

TrainOptions quick() {
  TrainOptions options;
  options.rounds = 50;
  return options;
}

TEST(Evaluation, EveryPlanIsHeldOutOnce) {
  const Evaluation evaluation = cross_validate_plans(synthetic_set(203), quick());
  ASSERT_EQ(evaluation.groups.size(), 1u) << evaluation.missing;
  const GroupScore& score = evaluation.groups[0];
  EXPECT_EQ(score.rows, 203u);
  EXPECT_GT(score.spearman, 0.8);
  EXPECT_GT(score.auc, 0.8);
  EXPECT_TRUE(std::isnan(score.noise_ceiling)) << "nothing was measured twice";
  EXPECT_EQ(score.measured_twice, 0u);
}

TEST(Evaluation, WhatIsHeldOutWasNotSeen) {
  // Times that no feature explains: a model that had seen them would rank them, one that had not cannot.
  TrainingSet set(Schema::plan_bits);
  const std::size_t group = set.group("noise");
  std::mt19937_64 random(3);
  for (const plan::FusionPlan& plan : some_plans(400))
    set.add(plan, {.time = 1.0 + static_cast<double>(random() % 1000) / 1000, .group = group});
  const Evaluation evaluation = cross_validate_plans(set, quick());
  ASSERT_EQ(evaluation.groups.size(), 1u);
  EXPECT_LT(std::abs(evaluation.groups[0].spearman), 0.25);
  EXPECT_LT(evaluation.groups[0].auc, 0.7);
}

TEST(Evaluation, TheSeedDecidesWhatIsHeldOut) {
  const TrainingSet set = synthetic_set(200);
  const auto spearman_with = [&](std::uint64_t seed) {
    TrainOptions options = quick();
    options.seed = seed;
    return cross_validate_plans(set, options, 5, 1).groups.at(0).spearman;
  };
  EXPECT_EQ(spearman_with(1), spearman_with(1));
  EXPECT_NE(spearman_with(1), spearman_with(2));
}

/// Kernels of two problems on two machines, the second half as fast.
TrainingSet kernels_of_two_machines() {
  TrainingSet set(Schema::segment);
  for (const int threads : {2, 1}) {
    const Device device(lower::CpuTarget{.threads = threads}, 1 << 20);
    for (const std::int64_t seq : {16, 64}) {
      const ProblemFacts facts(small_problem(seq));
      const std::size_t group = set.group(std::to_string(seq) + " on " + std::to_string(threads));
      for (const plan::SegmentVariant& variant : plan::all_variants())
        set.add(variant, lower::default_schedule(variant, facts.problem(), device.target), facts, device,
                {.time = (facts.costs(variant).flops + 1e5) / threads,
                 .group = group,
                 .high = variant.segment.size() > 9});
    }
  }
  return set;
}

TEST(Evaluation, GroupsOfAPartAreHeldOutTogether) {
  const TrainingSet set = kernels_of_two_machines();
  const std::vector<std::string> by_problem = {"16", "64", "16", "64"};
  const Evaluation evaluation = cross_validate_parts(set, quick(), by_problem);
  ASSERT_EQ(evaluation.groups.size(), 4u) << evaluation.missing;
  for (const GroupScore& score : evaluation.groups) {
    EXPECT_EQ(score.rows, static_cast<std::size_t>(plan::kVariantCount));
    EXPECT_GT(score.spearman, 0.9) << score.group;
    EXPECT_GE(score.path_regret, 0) << score.group;
    EXPECT_GT(score.plan_spearman, 0.7) << score.group;
    EXPECT_TRUE(std::isnan(score.plan_noise_ceiling)) << "none was measured twice";
    EXPECT_GT(score.work_spearman, 0.8) << score.group;
  }
  // Held out one by one, the other machine's rows of the same problem help: other predictions.
  const Evaluation alone = cross_validate_problems(set, quick());
  ASSERT_EQ(alone.groups.size(), 4u);
  EXPECT_NE(alone.groups[0].spearman, evaluation.groups[0].spearman);
  const std::vector<std::string> all(4, "same");
  EXPECT_THAT(cross_validate_parts(set, quick(), all).missing, HasSubstr("only one"));
}

TEST(Evaluation, OneFoldOfFive) {
  EXPECT_EQ(cross_validate_plans(synthetic_set(100), quick(), 5, 1).groups.at(0).rows, 20u);
}

TEST(Evaluation, NoiseCeilingIsTheCorrelationOfTwoMeasurements) {
  TrainingSet set(Schema::plan_bits);
  const std::size_t group = set.group("noisy");
  int i = 0;
  for (const plan::FusionPlan& plan : some_plans(100)) {
    Example example{.time = shape_of(plan), .group = group};
    // Twenty plans were measured twice, the second time in exactly the opposite order.
    if (++i <= 20) {
      example.first_half = i;
      example.second_half = 100 - i;
    }
    set.add(plan, example);
  }
  const GroupScore score = cross_validate_plans(set, quick()).groups.at(0);
  EXPECT_EQ(score.measured_twice, 20u);
  EXPECT_DOUBLE_EQ(score.noise_ceiling, -1);
}

TEST(Evaluation, HeldOutProblems) {
  TrainingSet set(Schema::plan);
  for (const std::int64_t seq : {16, 32, 64}) {
    const ProblemFacts facts(small_problem(seq));
    const std::size_t group = set.group(facts.problem().key());
    for (const plan::FusionPlan& plan : some_plans(100))
      set.add(plan, facts, {.time = static_cast<double>(seq) * shape_of(plan), .group = group});
  }
  const Evaluation evaluation = cross_validate_problems(set, quick());
  ASSERT_EQ(evaluation.groups.size(), 3u) << evaluation.missing;
  for (const GroupScore& score : evaluation.groups) {
    EXPECT_EQ(score.rows, 100u);
    EXPECT_GT(score.spearman, 0.8) << score.group;
  }
  EXPECT_DOUBLE_EQ(summarize(evaluation).at("rows"), 300);
}

TEST(Evaluation, SaysWhatIsMissing) {
  EXPECT_THAT(cross_validate_problems(synthetic_set(50), quick()).missing, HasSubstr("one problem only"));
  EXPECT_THAT(cross_validate_plans(synthetic_set(11), quick()).missing, HasSubstr("at least 10 are needed"));
  EXPECT_TRUE(cross_validate_plans(synthetic_set(11), quick()).groups.empty());
}

}  // namespace
}  // namespace fusetune::model
