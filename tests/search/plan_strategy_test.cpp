// Strategies over whole plans, on synthetic times: no device anywhere.
#include "search/plan_strategy.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "base/error.h"
#include "search/plan_replay.h"

namespace fusetune::search {
namespace {

using plan::FusionPlan;
using ::testing::AllOf;
using ::testing::Ge;
using ::testing::Le;

/// A smooth landscape: every border costs something of its own, and a few pay.
double synthetic_time(const FusionPlan& plan) {
  double time = 1000;
  for (int border = 0; border < 14; ++border)
    if ((plan.borders() >> border & 1) != 0) time += border % 3 == 0 ? -12 - border : 15 + border;
  return time + (plan.hand_written() ? -60 : 0);
}

std::vector<TimedPlan> synthetic_recording(std::size_t step = 1) {
  std::vector<TimedPlan> recorded;
  const std::vector<FusionPlan>& all = plan::all_plans();
  for (std::size_t i = 0; i < all.size(); i += step)
    recorded.push_back({all[i], synthetic_time(all[i]), true});
  return recorded;
}

/// Knows the truth, as far as it is told to.
class FakeModel : public PlanModel {
 public:
  using Guess = std::function<PlanPrediction(const FusionPlan&)>;
  explicit FakeModel(Guess guess, std::size_t least = 8) : guess_(std::move(guess)), least_(least) {}
  std::string fit(std::span<const TimedPlan> plans) override {
    ++fits;
    uniform = std::count_if(plans.begin(), plans.end(), [](const TimedPlan& one) { return one.uniform; });
    if (plans.size() < least_) return "too few plans";
    ready_ = true;
    return {};
  }
  bool ready() const override { return ready_; }
  std::vector<PlanPrediction> predict(std::span<const FusionPlan> plans) const override {
    std::vector<PlanPrediction> predictions;
    for (const FusionPlan& plan : plans) predictions.push_back(guess_(plan));
    return predictions;
  }
  int fits = 0;
  std::int64_t uniform = 0;

 private:
  Guess guess_;
  std::size_t least_;
  bool ready_ = false;
};

FakeModel truthful() {
  return FakeModel([](const FusionPlan& plan) {
    const double time = synthetic_time(plan);
    return PlanPrediction{time, time < 950};
  });
}

std::unique_ptr<PlanStrategy> make(std::string_view name, const PlanSpace& space, std::uint64_t seed = 1) {
  return find_plan_strategy(name)->make(space, seed);
}

std::vector<PlanCandidate> drive(PlanStrategy& strategy, int limit, int most,
                                 const std::function<bool(const FusionPlan&)>& runs = {}) {
  std::vector<PlanCandidate> asked;
  while (static_cast<int>(asked.size()) < most) {
    const auto candidates = strategy.ask(std::min(limit, most - static_cast<int>(asked.size())));
    if (candidates.empty()) break;
    for (const PlanCandidate& candidate : candidates) {
      asked.push_back(candidate);
      const bool ok = !runs || runs(candidate.plan);
      strategy.tell(candidate.plan, {ok, ok ? synthetic_time(candidate.plan) : 0});
    }
  }
  return asked;
}

class EveryPlanStrategy : public ::testing::TestWithParam<std::string_view> {
 protected:
  FakeModel model_ = truthful();
  PlanSpace space_{plan::all_plans(), 300, &model_};
};

TEST_P(EveryPlanStrategy, AsksForEachPlanAtMostOnceAndRepeatsItselfWithTheSameSeed) {
  const auto asked = drive(*make(GetParam(), space_), 16, 300);
  std::set<FusionPlan> different;
  for (const PlanCandidate& one : asked) different.insert(one.plan);
  EXPECT_EQ(different.size(), asked.size());
  FakeModel again = truthful();
  space_.model = &again;
  EXPECT_EQ(drive(*make(GetParam(), space_), 16, 300), asked);
  FakeModel other = truthful();
  space_.model = &other;
  EXPECT_NE(drive(*make(GetParam(), space_, 2), 16, 300), asked);
}

TEST_P(EveryPlanStrategy, GoesOnWhenNothingRuns) {
  const auto asked = drive(*make(GetParam(), space_), 16, 300, [](const FusionPlan&) { return false; });
  EXPECT_EQ(asked.size(), 300u);
}

TEST_P(EveryPlanStrategy, EndsInASmallSpace) {
  for (const std::size_t count : {1u, 2u, 5u}) {
    const std::vector<FusionPlan> few(plan::all_plans().begin(), plan::all_plans().begin() + count);
    space_.plans = few;
    const auto strategy = make(GetParam(), space_);
    const std::size_t asked = drive(*strategy, 4, 1000).size();
    EXPECT_THAT(asked, AllOf(Ge(1u), Le(count)));
    // `mask` cannot know how many.
    EXPECT_EQ(strategy->expected().has_value(), GetParam() != "mask");
    EXPECT_EQ(strategy->expected().value_or(asked), asked);
  }
}

TEST_P(EveryPlanStrategy, AsksForNoMoreThanItMay) {
  const auto strategy = make(GetParam(), space_);
  for (int i = 0; i < 5; ++i) {
    const auto asked = strategy->ask(1);
    ASSERT_LE(asked.size(), 1u);
    for (const PlanCandidate& one : asked) strategy->tell(one.plan, {true, synthetic_time(one.plan)});
  }
  EXPECT_TRUE(strategy->ask(0).empty());
}

INSTANTIATE_TEST_SUITE_P(All, EveryPlanStrategy, ::testing::Values("mask", "random", "anneal"));

TEST(PlanStrategies, AreFoundByName) {
  EXPECT_EQ(find_plan_strategy("exhaustive"), nullptr);
  EXPECT_TRUE(find_plan_strategy("mask")->needs_model);
}

TEST(RandomPlans, AreUniform) {
  // Half the space: each half of the canonical plans must be met about equally often.
  const auto asked = drive(*make("random", {plan::all_plans(), 0, nullptr}), 32, 2000);
  const auto hand_written = std::count_if(asked.begin(), asked.end(),
                                          [](const PlanCandidate& one) { return one.plan.hand_written(); });
  // 1,024 of 17,408 plans have hand-written attention: 118 of 2,000 expected, a deviation of 10.
  EXPECT_THAT(hand_written, AllOf(Ge(70), Le(165)));
  EXPECT_TRUE(std::all_of(asked.begin(), asked.end(), [](const PlanCandidate& one) { return one.uniform; }));
}

TEST(RandomPlans, MeetEveryPlan) {
  EXPECT_EQ(drive(*make("random", {plan::all_plans(), 0, nullptr}), 1000, 100000).size(),
            plan::all_plans().size());
}

TEST(MaskPipeline, BeginsUniformlyThenTimesWhatTheModelExpectsToBeFastest) {
  FakeModel model = truthful();
  const auto strategy = make("mask", {plan::all_plans(), 64, &model});
  const auto first = drive(*strategy, 8, 32);
  EXPECT_TRUE(std::all_of(first.begin(), first.end(), [](const PlanCandidate& one) { return one.uniform; }));
  EXPECT_EQ(model.fits, 0);
  const auto second = drive(*strategy, 16, 16);
  EXPECT_EQ(model.fits, 1);
  EXPECT_EQ(model.uniform, 32);
  EXPECT_EQ(std::count_if(second.begin(), second.end(), [](const PlanCandidate& one) { return one.uniform; }),
            2);
  const double best = PlanReplay(synthetic_recording()).best_us();
  EXPECT_TRUE(std::any_of(second.begin(), second.end(), [&](const PlanCandidate& one) {
    return synthetic_time(one.plan) == best;
  })) << "a model that knows the truth finds the best plan at once";
  EXPECT_EQ(strategy->predicted(), static_cast<std::int64_t>(plan::all_plans().size()) - 48);
  std::set<FusionPlan> slow;
  for (const FusionPlan& plan : plan::all_plans())
    if (!truthful().predict(std::span(&plan, 1))[0].high) slow.insert(plan);
  for (const PlanCandidate& one : first) slow.erase(one.plan);
  for (const PlanCandidate& one : second) slow.erase(one.plan);  // drawn although they were pruned
  EXPECT_EQ(strategy->pruned(), static_cast<std::int64_t>(slow.size()));
}

TEST(MaskPipeline, DoesNotTimeWhatTheModelPruned) {
  FakeModel model = truthful();
  const auto asked = drive(*make("mask", {plan::all_plans(), 0, &model}), 16, 100000);
  for (const PlanCandidate& one : asked)
    EXPECT_TRUE(one.uniform || synthetic_time(one.plan) < 950) << one.plan.to_string();
  EXPECT_LT(asked.size(), 300u) << "three rounds without a faster plan end it";
}

TEST(MaskPipeline, AWrongModelStillMeetsOtherPlans) {
  FakeModel model([](const FusionPlan& plan) {
    return PlanPrediction{-synthetic_time(plan), plan.kernel_count() > 10};
  });
  const auto asked = drive(*make("mask", {plan::all_plans(), 200, &model}), 16, 200);
  EXPECT_TRUE(
      std::any_of(asked.begin() + 100, asked.end(), [](const PlanCandidate& one) { return one.uniform; }));
}

TEST(MaskPipeline, SamplesOnWhileThereIsNoModel) {
  FakeModel model([](const FusionPlan&) { return PlanPrediction{}; }, 60);
  const auto asked = drive(*make("mask", {plan::all_plans(), 16, &model}), 16, 70);
  EXPECT_EQ(asked.size(), 70u);
  EXPECT_TRUE(
      std::all_of(asked.begin(), asked.begin() + 60, [](const PlanCandidate& one) { return one.uniform; }));
}

TEST(Anneal, IsBetterThanChanceOnASmoothLandscape) {
  const PlanReplay replay(synthetic_recording());
  double annealed = 0, sampled = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    annealed += replay_plans(*make("anneal", {replay.plans(), 150, nullptr}, seed), replay, 150).regret;
    sampled += replay_plans(*make("random", {replay.plans(), 150, nullptr}, seed), replay, 150).regret;
  }
  EXPECT_LT(annealed, 0.7 * sampled);
}

TEST(Anneal, WalksThroughARecordingWithHoles) {
  const PlanReplay replay(synthetic_recording(7));
  const PlanReplayResult result = replay_plans(*make("anneal", {replay.plans(), 150, nullptr}), replay, 150);
  EXPECT_EQ(result.trials, 150);
  EXPECT_LT(result.regret, 0.1);
}

TEST(PlanReplay, CountsTrialsAndRegret) {
  const FusionPlan a = plan::all_plans()[3], b = plan::all_plans()[4];
  const PlanReplay replay(std::vector<TimedPlan>{{a, 120, true}, {b, 100, true}, {b, 110, true}});
  EXPECT_EQ(replay.best_us(), 100);
  EXPECT_FALSE(replay.measure(plan::all_plans()[5]).ok);
  const auto one = make("random", {replay.plans(), 0, nullptr});
  const PlanReplayResult result = replay_plans(*one, replay, 1);
  EXPECT_EQ(result.trials, 1);
  EXPECT_DOUBLE_EQ(result.regret, result.best == b ? 0 : 0.2);
  EXPECT_EQ(replay_plans(*make("random", {replay.plans(), 0, nullptr}), replay, 10).regret, 0);
  EXPECT_THROW(PlanReplay(std::vector<TimedPlan>{{a, 0, true}}), base::InternalError);
  EXPECT_THROW(PlanReplay(std::vector<TimedPlan>{{a, std::nan(""), true}}), base::InternalError);
}

}  // namespace
}  // namespace fusetune::search
