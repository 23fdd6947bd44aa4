#include "model/cost_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <limits>

#include "base/error.h"
#include "base/german_locale.h"
#include "model/metrics.h"
#include "synthetic.h"

namespace fusetune::model {
namespace {

using testing::HasSubstr;

std::vector<double> times_of(const std::vector<Prediction>& predictions) {
  std::vector<double> times;
  for (const Prediction& prediction : predictions) times.push_back(prediction.time);
  return times;
}

std::vector<double> shapes_of(const std::vector<plan::FusionPlan>& plans, double unit) {
  std::vector<double> times;
  for (const plan::FusionPlan& plan : plans) times.push_back(unit * shape_of(plan));
  return times;
}

CostModel fitted(const TrainingSet& set, const TrainOptions& options = {}) {
  Trained trained = CostModel::train(set, options);
  EXPECT_EQ(trained.missing, "");
  return std::move(*trained.model);
}

TEST(CostModel, FollowsTimesOfMicrosecondsAsWellAsOfSeconds) {
  const std::vector<plan::FusionPlan> unseen = some_plans(500, 2);
  for (const double unit : {1e-5, 1.0, 3e3}) {
    const CostModel cost_model = fitted(synthetic_set(800, unit));
    const std::vector<double> predicted = times_of(cost_model.predict(unseen));
    const std::vector<double> truth = shapes_of(unseen, unit);
    EXPECT_GT(spearman(predicted, truth), 0.97) << unit;
    double worst = 0;
    for (std::size_t i = 0; i < truth.size(); ++i)
      worst = std::max(worst, std::abs(predicted[i] / truth[i] - 1));
    EXPECT_LT(worst, 0.25) << unit;
  }
}

/// Threads of this process that live, those that wait for work included.
int living_threads() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<int>(std::distance(begin(tasks), end(tasks)));
}

// By itself XGBoost takes all CPUs of the host, which a container may not have. In processes of their own:
// threads stay when their work is done.
TEST(CostModelDeathTest, TrainsAndPredictsOnTheThreadsItIsGiven) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  for (const int threads : {1, 5}) {
    const auto threads_used = [&] {
      TrainOptions options;
      options.threads = threads;
      fitted(synthetic_set(400), options).predict(some_plans(400));
      return living_threads();
    };
    EXPECT_EXIT(std::exit(threads_used()), testing::ExitedWithCode(threads), "");
  }
}

TEST(CostModel, FindsTheFastestTenth) {
  const TrainingSet set = synthetic_set(800);
  const CostModel cost_model = fitted(set);
  EXPECT_EQ(cost_model.info().rows, 800);
  EXPECT_GE(cost_model.info().high_rows, 80);
  const Labels labels = make_labels(set, 0.1);
  std::vector<bool> predicted;
  for (const Prediction& prediction : cost_model.predict(set.features())) {
    predicted.push_back(prediction.high);
    EXPECT_EQ(prediction.high, prediction.probability >= 0.5);
  }
  EXPECT_GT(count_classes(predicted, labels.high).recall(), 0.95);
}

TEST(CostModel, AnEarlierPredictionIsNotChangedByALater) {
  const CostModel cost_model = fitted(synthetic_set(200));
  const auto first = cost_model.predict(some_plans(100, 3));
  const std::vector<double> copied = times_of(first);
  const auto second = cost_model.predict(some_plans(100, 4));
  EXPECT_EQ(times_of(first), copied);
  EXPECT_NE(times_of(first), times_of(second));
}

TEST(CostModel, TooLittleGivesNoModelAndSaysWhatIsMissing) {
  const auto missing = [](const TrainingSet& set) {
    const Trained trained = CostModel::train(set, {});
    EXPECT_FALSE(trained.model);
    return trained.missing;
  };
  EXPECT_THAT(missing(synthetic_set(0)), HasSubstr("0 usable rows, at least 10 are needed"));
  EXPECT_THAT(missing(synthetic_set(1)), HasSubstr("1 usable rows"));
  EXPECT_THAT(missing(synthetic_set(9)), HasSubstr("9 usable rows"));
  EXPECT_TRUE(CostModel::train(synthetic_set(10), {}).model);
}

TEST(CostModel, OneClassOnlyGivesNoModel) {
  TrainingSet same(Schema::plan_bits);
  Example example{.time = 2, .group = same.group("equal times")};
  for (const plan::FusionPlan& plan : some_plans(50)) same.add(plan, example);
  EXPECT_THAT(CostModel::train(same, {}).missing, HasSubstr("all 50 rows are High Performance"));
  TrainOptions everything;
  everything.high_fraction = 1;
  EXPECT_THAT(CostModel::train(synthetic_set(50), everything).missing, HasSubstr("rows of both classes"));
}

TEST(CostModel, FailedAndInfiniteRowsAreLeftOutAndCounted) {
  TrainingSet set = synthetic_set(30);
  const std::string before = set.hash();
  for (const double time : {std::numeric_limits<double>::infinity(), std::nan(""), 0.0, -1.0})
    set.add(plan::FusionPlan::unfused(), {.time = time});
  EXPECT_EQ(set.size(), 30u);
  EXPECT_EQ(set.left_out(), 4);
  EXPECT_EQ(set.features().rows(), 30u);
  EXPECT_EQ(set.hash(), before);
  EXPECT_EQ(fitted(set).info().left_out, 4);

  TrainingSet failed(Schema::plan_bits);
  const Example no_time{.time = std::nan(""), .group = failed.group("failed")};
  for (const plan::FusionPlan& plan : some_plans(20)) failed.add(plan, no_time);
  EXPECT_THAT(CostModel::train(failed, {}).missing,
              HasSubstr("0 usable rows (20 without a usable time were left out)"));
}

TEST(CostModel, HighIsRelativeToTheUniformlySampledPlansOfItsProblem) {
  TrainingSet set(Schema::plan_bits);
  const std::size_t fast = set.group("fast"), slow = set.group("slow");
  const std::vector<plan::FusionPlan> plans = some_plans(45);
  for (int i = 0; i < 20; ++i) set.add(plans[i], {.time = 1.0 + i, .group = fast});
  for (int i = 0; i < 20; ++i) set.add(plans[20 + i], {.time = 1000.0 + i, .group = slow});
  // A search found these: they are High by the uniform plans' threshold, and do not move it.
  for (int i = 0; i < 5; ++i) set.add(plans[40 + i], {.time = 0.5, .group = fast, .uniform = false});
  const Labels labels = make_labels(set, 0.1);
  std::vector<int> high;
  for (std::size_t i = 0; i < labels.high.size(); ++i)
    if (labels.high[i]) high.push_back(static_cast<int>(i));
  EXPECT_THAT(high, testing::ElementsAre(0, 1, 20, 21, 40, 41, 42, 43, 44));
  EXPECT_EQ(labels.groups_without_uniform, 0);
}

TEST(CostModel, TheCallersClassWins) {
  TrainingSet set(Schema::plan_bits);
  const std::size_t group = set.group("g");
  const std::vector<plan::FusionPlan> plans = some_plans(20);
  for (int i = 0; i < 20; ++i)
    set.add(plans[i], {.time = 1.0 + i, .group = group, .uniform = false, .high = i >= 15});
  const Labels labels = make_labels(set, 0.1);
  EXPECT_FALSE(labels.high[0]);
  EXPECT_TRUE(labels.high[19]);
  EXPECT_EQ(labels.groups_without_uniform, 1);
}

TEST(CostModel, TheSameSeedGivesTheSamePredictionsAndAnotherDoesNot) {
  const TrainingSet set = synthetic_set(300);
  const std::vector<plan::FusionPlan> plans = some_plans(50, 5);
  const auto with_seed = [&](std::uint64_t seed) {
    TrainOptions options;
    options.seed = seed;
    return times_of(fitted(set, options).predict(plans));
  };
  EXPECT_EQ(with_seed(7), with_seed(7));
  EXPECT_NE(with_seed(7), with_seed(8));
  EXPECT_EQ(with_seed(std::numeric_limits<std::uint64_t>::max()).size(), 50u) << "any seed will do";
}

TEST(CostModel, TheSameNumbersInEveryLocale) {
  const TrainingSet set = synthetic_set(100);
  const std::vector<plan::FusionPlan> plans = some_plans(50, 5);
  const std::vector<double> expected = times_of(fitted(set).predict(plans));
  const base::TemporaryDirectory directory;
  const auto file = directory.path() / "model.json";
  {
    const base::GermanLocale german;
    const CostModel cost_model = fitted(set);
    EXPECT_EQ(times_of(cost_model.predict(plans)), expected);
    cost_model.save(file);
    EXPECT_EQ(times_of(CostModel::load(file).predict(plans)), expected);
  }
  EXPECT_EQ(times_of(CostModel::load(file).predict(plans)), expected);
}

TEST(CostModel, PlansOfAProblem) {
  TrainingSet set(Schema::plan);
  for (const std::int64_t seq : {16, 64}) {
    const ProblemFacts facts(small_problem(seq));
    const std::size_t group = set.group(facts.problem().key());
    for (const plan::FusionPlan& plan : some_plans(200))
      set.add(plan, facts, {.time = static_cast<double>(seq) * shape_of(plan), .group = group});
  }
  const CostModel cost_model = fitted(set);
  const std::vector<plan::FusionPlan> plans = some_plans(100, 6);
  for (const std::int64_t seq : {16, 64}) {
    const auto predicted = times_of(cost_model.predict(small_problem(seq), plans));
    EXPECT_GT(spearman(predicted, shapes_of(plans, 1)), 0.9);
    EXPECT_NEAR(predicted[0] / (static_cast<double>(seq) * shape_of(plans[0])), 1, 0.3);
  }
  EXPECT_THROW(cost_model.predict(plans), base::UsageError) << "needs to know the problem";
}

TEST(CostModel, SegmentsWithSchedules) {
  const ProblemFacts facts(small_problem());
  const lower::CpuTarget target;
  TrainingSet set(Schema::segment);
  const std::size_t group = set.group("segments");
  for (const plan::SegmentVariant& variant : plan::all_variants())
    for (const lower::Schedule& schedule : lower::schedule_space(variant, facts.problem(), target))
      set.add(variant, schedule, facts, target,
              {.time = facts.costs(variant).flops + 1e4 + 10.0 * schedule.row_block,
               .group = group,
               .high = variant.segment.size() > 9});
  const CostModel cost_model = fitted(set);
  std::vector<double> measured;
  for (const Example& example : set.examples()) measured.push_back(example.time);
  EXPECT_GT(spearman(times_of(cost_model.predict(set.features())), measured), 0.97);
}

TEST(CostModel, ExplanationsAddUpToThePrediction) {
  const CostModel cost_model = fitted(synthetic_set(200));
  FeatureTable table(Schema::plan_bits);
  for (const plan::FusionPlan& plan : some_plans(20, 9)) table.add(plan);
  const auto predictions = cost_model.predict(table);
  const auto explanations = cost_model.explain(table);
  ASSERT_EQ(explanations.size(), 20u);
  for (std::size_t i = 0; i < 20; ++i) {
    double sum = explanations[i].shared;
    for (const double part : explanations[i].features) sum += part;
    EXPECT_NEAR(std::exp(sum) / predictions[i].time, 1, 1e-4);
    EXPECT_EQ(explanations[i].features.size(), features(Schema::plan_bits).size());
  }
}

TEST(CostModel, NoPlansNoPredictions) {
  EXPECT_TRUE(fitted(synthetic_set(20)).predict(std::vector<plan::FusionPlan>{}).empty());
}

TEST(CostModel, OptionsOutOfRangeAreRefused) {
  for (const double fraction : {0.0, -0.1, 1.1, std::nan("")}) {
    TrainOptions options;
    options.high_fraction = fraction;
    EXPECT_THROW(CostModel::train(synthetic_set(20), options), base::UsageError) << fraction;
  }
}

}  // namespace
}  // namespace fusetune::model
