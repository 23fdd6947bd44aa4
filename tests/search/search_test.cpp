// Strategies, stop conditions and selection on synthetic tables: no device anywhere.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>

#include "base/error.h"
#include "search/guided.h"
#include "search/replay.h"
#include "search/selection.h"

namespace fusetune::search {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

lower::Schedule schedule(int row_block, int tile_rows = 6) {
  lower::Schedule result;
  result.row_block = row_block;
  result.tile_rows = tile_rows;
  return result;
}

bool has_gemm(const plan::Segment& segment) {
  return segment.contains(0) || segment.contains(7) || segment.contains(10) || segment.contains(12);
}

/// Three row blocks everywhere; lone GEMMs have the tiles 4, 6 and 8, all others the one they are given.
Space synthetic_space() {
  return {[](int variant, const GemmTile& tile) {
    const plan::Segment& segment = plan::all_variants()[static_cast<std::size_t>(variant)].segment;
    std::vector<lower::AnySchedule> schedules;
    const bool lone_gemm = segment.size() == 1 && has_gemm(segment);
    for (const int rows : {64, 32, 128}) {
      schedules.push_back(schedule(rows, tile.rows > 0 && has_gemm(segment) ? tile.rows : 6));
    }
    if (lone_gemm) schedules = {schedule(64, 6), schedule(64, 4), schedule(64, 8)};
    return schedules;
  }};
}

/// Positive, different for each candidate, tile 8 clearly best.
double synthetic_time(const Candidate& candidate) {
  const plan::Segment& segment = plan::all_variants()[static_cast<std::size_t>(candidate.variant)].segment;
  const double work = 10 + 3 * segment.size() + 0.01 * candidate.variant;
  return work + (candidate.schedule.cpu()->tile_rows == 8 ? 0 : 2) +
         0.001 * candidate.schedule.cpu()->row_block;
}

struct Asked {
  Incumbents best;
  std::vector<Candidate> order;
};

Asked drive(Strategy& strategy, int limit) {
  Asked result;
  while (true) {
    const std::vector<Candidate> candidates = strategy.ask(limit);
    if (candidates.empty()) return result;
    for (const Candidate& candidate : candidates) {
      result.order.push_back(candidate);
      const Trial trial{true, synthetic_time(candidate)};
      strategy.tell(candidate, trial);
      result.best.tell(candidate, trial);
    }
  }
}

std::vector<Candidate> proved_of(const Strategy& strategy) {
  std::vector<Candidate> proved;
  for (const UntimedCandidate& one : strategy.untimed())
    if (one.proved) proved.push_back(one.candidate);
  return proved;
}

TEST(Exhaustive, TimesEveryVariantAndAsksNothingTwice) {
  for (const int limit : {1, 7, 1000}) {
    const auto strategy = make_strategy("exhaustive", synthetic_space(), 1);
    const Asked result = drive(*strategy, limit);
    EXPECT_EQ(result.best.count(), plan::kVariantCount);
    EXPECT_EQ(std::set<Candidate>(result.order.begin(), result.order.end()).size(), result.order.size());
    EXPECT_EQ(strategy->expected(), static_cast<int>(result.order.size()));
    EXPECT_EQ(result.order.size(), 3u * plan::kVariantCount);
  }
}

TEST(Exhaustive, FirstFifteenMakeACompletePlan) {
  const auto strategy = make_strategy("exhaustive", synthetic_space(), 5);
  Incumbents best;
  for (int i = 0; i < block::kOperatorCount; ++i) {
    EXPECT_TRUE(plan::cheapest_plans(best.costs(), 1).empty()) << i;
    const std::vector<Candidate> candidates = strategy->ask(1);
    ASSERT_EQ(candidates.size(), 1u);
    strategy->tell(candidates[0], {true, 1.0});
    best.tell(candidates[0], {true, 1.0});
  }
  EXPECT_EQ(plan::cheapest_plans(best.costs(), 1).at(0).plan, plan::FusionPlan::unfused());
}

TEST(Exhaustive, TunesTheTileOnLoneGemmsAndReusesIt) {
  const auto strategy = make_strategy("exhaustive", synthetic_space(), 2);
  const Asked result = drive(*strategy, 16);
  for (const Candidate& candidate : result.order) {
    const plan::Segment& segment = plan::all_variants()[static_cast<std::size_t>(candidate.variant)].segment;
    if (segment.size() > 1 && has_gemm(segment)) {
      EXPECT_EQ(candidate.schedule.cpu()->tile_rows, 8) << candidate.variant;
    }
  }
}

TEST(Exhaustive, FailedTilesAreNotReused) {
  const auto strategy = make_strategy("exhaustive", synthetic_space(), 2);
  std::set<int> tiles;
  while (true) {
    const std::vector<Candidate> candidates = strategy->ask(16);
    if (candidates.empty()) break;
    for (const Candidate& candidate : candidates) {
      const plan::Segment& segment =
          plan::all_variants()[static_cast<std::size_t>(candidate.variant)].segment;
      if (segment.size() > 1 && has_gemm(segment)) tiles.insert(candidate.schedule.cpu()->tile_rows);
      strategy->tell(candidate, {candidate.schedule.cpu()->tile_rows != 8, synthetic_time(candidate)});
    }
  }
  EXPECT_FALSE(tiles.contains(8));
}

TEST(Exhaustive, OrderIsShuffledBySeedAndRepeatable) {
  const auto order_of = [](std::uint64_t seed) {
    const auto strategy = make_strategy("exhaustive", synthetic_space(), seed);
    return drive(*strategy, 32).order;
  };
  EXPECT_EQ(order_of(3), order_of(3));
  EXPECT_NE(order_of(3), order_of(4));
}

TEST(Exhaustive, WaitsForResultsItDependsOn) {
  const auto strategy = make_strategy("exhaustive", synthetic_space(), 1);
  const std::vector<Candidate> first = strategy->ask(1000);
  EXPECT_EQ(first.size(), 15u);
  EXPECT_GT(strategy->expected(),
            plan::kVariantCount);  // the progress display needs the whole, not the phase
  EXPECT_TRUE(strategy->ask(1000).empty());
  for (const Candidate& candidate : first) strategy->tell(candidate, {});
  EXPECT_FALSE(strategy->ask(1000).empty());
}

/// Knows the truth.
class TruthfulModel : public SegmentModel {
 public:
  std::string fit(std::span<const TimedCandidate> candidates) override {
    high = std::count_if(candidates.begin(), candidates.end(),
                         [](const TimedCandidate& one) { return one.high; });
    return {};
  }
  bool ready() const override { return true; }
  std::vector<bool> are_high(std::span<const Candidate> candidates) const override {
    std::vector<bool> high;
    for (const Candidate& candidate : candidates)
      high.push_back(synthetic_time(candidate) >= at_least && synthetic_time(candidate) < promising);
    return high;
  }
  double at_least = 0, promising = kInfinity;  // what it takes for fast is between
  std::int64_t high = 0;
};

TEST(Guided, FindsTheBestSumWithFewerTrials) {
  const Asked all = drive(*make_strategy("exhaustive", synthetic_space(), 1), 8);
  TruthfulModel model;
  model.at_least = 50;  // the best plan is one kernel
  const Asked some = drive(*make_strategy("guided", synthetic_space(), 1, &model), 8);
  EXPECT_LT(some.best.count(), plan::kVariantCount) << "variants too are left out";
  EXPECT_DOUBLE_EQ(plan::cheapest_plans(some.best.costs(), 1).front().cost,
                   plan::cheapest_plans(all.best.costs(), 1).front().cost);
  EXPECT_LT(some.order.size(), 0.6 * static_cast<double>(all.order.size()));
  EXPECT_GT(model.high, 0) << "variants on the shortest path are of the fast class";
  EXPECT_LT(model.high, plan::kVariantCount);
}

TEST(Guided, TimesNothingThatTheModelPrunedButItsAudit) {
  TruthfulModel model;
  model.promising = 0;  // nothing is
  const auto strategy = make_strategy("guided", synthetic_space(), 1, &model);
  int opening = 0;  // what no model is asked about
  std::int64_t asked_for = 0;
  for (auto asked = strategy->ask(8); !asked.empty(); asked = strategy->ask(8)) {
    if (!strategy->pruning()) opening += static_cast<int>(asked.size());
    asked_for += static_cast<std::int64_t>(asked.size());
    for (const Candidate& candidate : asked) strategy->tell(candidate, {true, synthetic_time(candidate)});
  }
  EXPECT_GT(opening,
            block::kOperatorCount + 8);  // and the other tiles of the four lone GEMMs, reference plans
  EXPECT_LT(opening, 40);
  EXPECT_EQ(strategy->left(), 0);
  const auto report = strategy->pruning();
  ASSERT_TRUE(report);
  EXPECT_TRUE(report->complete);
  EXPECT_LE(report->audited, asked_for - opening) << "an audit that failed makes further rounds";
  EXPECT_GE(report->audited, 36);
  EXPECT_EQ(strategy->pruned(), 3 * plan::kVariantCount - asked_for);
  EXPECT_EQ(report->last.left_out, strategy->pruned() + report->last.audited);
  EXPECT_EQ(report->losses, 0);
  EXPECT_LE(report->last.chance.value_or(1), PruningEstimate::kAcceptedChance);
}

/// Takes everything for slow: its slow class holds the winner.
class PlantedModel : public TruthfulModel {
 public:
  std::vector<bool> are_high(std::span<const Candidate> candidates) const override {
    return std::vector<bool>(candidates.size());
  }
};

/// Row blocks of 32 are a tenth faster than all others.
Trial with_fast_rows(const Candidate& candidate) {
  return {true, synthetic_time(candidate) * (candidate.schedule.cpu()->row_block == 32 ? 0.9 : 1)};
}

TEST(Guided, AnAuditCatchesAModelThatPrunesTheWinner) {
  double best_us = kInfinity;
  {
    const auto all = make_strategy("exhaustive", synthetic_space(), 1);
    Incumbents best;
    for (auto asked = all->ask(8); !asked.empty(); asked = all->ask(8))
      for (const Candidate& candidate : asked) {
        all->tell(candidate, with_fast_rows(candidate));
        best.tell(candidate, with_fast_rows(candidate));
      }
    best_us = best.best_sum_us();
  }
  PlantedModel model;
  const auto strategy = make_strategy("guided", synthetic_space(), 1, &model);
  Incumbents best;
  double before_audit_us = kInfinity;
  for (auto asked = strategy->ask(8); !asked.empty(); asked = strategy->ask(8))
    for (const Candidate& candidate : asked) {
      if (!strategy->pruning() || strategy->pruning()->audited == 0) before_audit_us = best.best_sum_us();
      strategy->tell(candidate, with_fast_rows(candidate));
      best.tell(candidate, with_fast_rows(candidate));
    }
  EXPECT_GT(before_audit_us, 1.05 * best_us) << "else the model prunes nothing that matters";
  EXPECT_LE(best.best_sum_us(), 1.01 * best_us);
  const auto report = strategy->pruning();
  ASSERT_TRUE(report);
  EXPECT_GT(report->widened, 0);
  EXPECT_GT(report->audits, report->widened - 1);
  EXPECT_TRUE(report->complete);
}

// The same seed audits the same candidates.
TEST(Guided, AuditsAreRepeatable) {
  const auto order = [] {
    PlantedModel model;
    return drive(*make_strategy("guided", synthetic_space(), 4, &model), 8).order;
  };
  EXPECT_EQ(order(), order());
}

/// Keeps what it was fitted to.
class RememberingModel : public PlantedModel {
 public:
  std::string fit(std::span<const TimedCandidate> candidates) override {
    for (const TimedCandidate& one : candidates) fitted.push_back(one.candidate);
    return {};
  }
  std::vector<Candidate> fitted;
};

// Else a search that is repeated from its database, where all answers are at hand, learns something else.
TEST(Guided, LearnsTheSameInWhateverOrderTheAnswersCome) {
  const auto run = [](bool reversed) {
    RememberingModel model;
    const auto strategy = make_strategy("guided", synthetic_space(), 4, &model);
    for (auto asked = strategy->ask(16); !asked.empty(); asked = strategy->ask(16)) {
      if (reversed) std::reverse(asked.begin(), asked.end());
      for (const Candidate& candidate : asked) strategy->tell(candidate, with_fast_rows(candidate));
    }
    return std::pair(model.fitted, strategy->pruning()->last.chance);
  };
  const auto [fitted, chance] = run(false);
  EXPECT_FALSE(fitted.empty());
  EXPECT_EQ(run(true), std::pair(fitted, chance));
}

TEST(Guided, AnAuditCutShortSaysSo) {
  TruthfulModel model;
  model.promising = 0;
  const auto strategy = make_strategy("guided", synthetic_space(), 1, &model);
  int audited = 0;
  while (audited < 10) {
    const std::vector<Candidate> asked = strategy->ask(1);
    strategy->tell(asked.at(0), {true, synthetic_time(asked.at(0))});
    if (strategy->pruning()) ++audited;
  }
  const auto report = strategy->pruning();
  ASSERT_TRUE(report);
  EXPECT_FALSE(report->complete);
  EXPECT_EQ(report->last.audited, 10);
  EXPECT_FALSE(report->last.passed());
}

/// The synthetic space where the roofline is the truth: every variant's work is what it takes at best.
Space bounded_space() {
  Space space = synthetic_space();
  space.work = [](int variant) {
    const plan::Segment& segment = plan::all_variants()[static_cast<std::size_t>(variant)].segment;
    return Work{1e6 * (10 + 3 * segment.size() + 0.01 * variant), 0};
  };
  return space;
}

double best_of_everything() {
  return plan::cheapest_plans(drive(*make_strategy("exhaustive", synthetic_space(), 1), 8).best.costs(), 1)
      .front()
      .cost;
}

// Fifteen kernels of 13 us each cannot be as fast as one of 55, whatever their schedules.
TEST(Guided, AClosedCertificateEndsTheRounds) {
  const Closing closing{.alpha = 1, .epsilon = 0.3};  // the roofline leaves room for a quarter
  const auto open = make_strategy("guided", bounded_space(), 1, nullptr, {.alpha = 1, .epsilon = 0});
  const Asked without = drive(*open, 8);
  const auto strategy = make_strategy("guided", bounded_space(), 1, nullptr, closing);
  const Asked with = drive(*strategy, 8);
  EXPECT_TRUE(strategy->closed());
  EXPECT_LT(with.order.size(), without.order.size());
  // What it says holds for everything it did not time.
  EXPECT_LE(with.best.best_sum_us() / best_of_everything() - 1, closing.epsilon);
  EXPECT_EQ(static_cast<std::int64_t>(with.order.size() + proved_of(*strategy).size()) + strategy->pruned() +
                strategy->left(),
            3 * plan::kVariantCount);
}

TEST(Guided, DropsWhatIsProvedIrrelevant) {
  const auto strategy = make_strategy("guided", bounded_space(), 1, nullptr, {.alpha = 1, .epsilon = 0});
  const Asked asked = drive(*strategy, 8);
  const std::vector<Candidate> proved = proved_of(*strategy);
  ASSERT_FALSE(proved.empty());
  const std::set<Candidate> timed(asked.order.begin(), asked.order.end());
  plan::VariantCosts truth = drive(*make_strategy("exhaustive", synthetic_space(), 1), 8).best.costs();
  const plan::PathCosts paths(truth);
  for (const Candidate& candidate : proved) {
    EXPECT_FALSE(timed.contains(candidate));
    const plan::Segment& segment = plan::all_variants()[static_cast<std::size_t>(candidate.variant)].segment;
    EXPECT_GT(paths.to(segment.first) + synthetic_time(candidate) + paths.from(segment.last + 1),
              best_of_everything());
  }
  const auto never = make_strategy("guided", bounded_space(), 1, nullptr, {.alpha = 0, .epsilon = 1});
  drive(*never, 8);
  EXPECT_TRUE(proved_of(*never).empty()) << "without an assumption on plans nothing is proved";
  EXPECT_FALSE(never->closed());
}

// Each candidate is timed, pruned, proved irrelevant or left, and nothing twice.
TEST(Guided, CountsWhatItPrunedAndLeft) {
  for (const double promising : {0.0, 40.0, kInfinity}) {
    TruthfulModel model;
    model.promising = promising;
    const auto strategy = make_strategy("guided", synthetic_space(), 1, &model);
    EXPECT_EQ(strategy->pruned() + strategy->left(), 3 * plan::kVariantCount) << "before the first";
    const std::vector<Candidate> first = strategy->ask(8);
    EXPECT_EQ(strategy->left(), 3 * plan::kVariantCount) << "asked for, not told";
    for (const Candidate& candidate : first) strategy->tell(candidate, {true, synthetic_time(candidate)});
    const auto timed = static_cast<std::int64_t>(first.size() + drive(*strategy, 8).order.size());
    const auto proved = static_cast<std::int64_t>(proved_of(*strategy).size());
    EXPECT_EQ(timed + strategy->pruned() + proved + strategy->left(), 3 * plan::kVariantCount) << promising;
    EXPECT_GT(strategy->pruned(), 0) << promising;
  }
}

TEST(Guided, WorksWithoutAModel) {
  const auto strategy = make_strategy("guided", synthetic_space(), 3);
  const Asked some = drive(*strategy, 8);
  EXPECT_EQ(some.order.size() + proved_of(*strategy).size(), 3u * plan::kVariantCount);
  EXPECT_EQ(strategy->pruned(), 0) << "there is none to prune";
  const std::set<Candidate> different(some.order.begin(), some.order.end());
  EXPECT_EQ(different.size(), some.order.size());
  EXPECT_EQ(drive(*make_strategy("guided", synthetic_space(), 3), 8).order, some.order);
}

TEST(Guided, GoesOnWhenNothingRuns) {
  const auto strategy = make_strategy("guided", synthetic_space(), 1);
  int asked = 0;
  for (auto candidates = strategy->ask(8); !candidates.empty(); candidates = strategy->ask(8))
    for (const Candidate& candidate : candidates) {
      strategy->tell(candidate, {});
      ++asked;
    }
  EXPECT_GE(asked, plan::kVariantCount);
}

TEST(Guided, ExpectsNoLessThanItAsksFor) {
  for (const double promising : {0.0, 40.0, kInfinity}) {
    TruthfulModel model;
    model.promising = promising;
    const auto strategy = make_strategy("guided", synthetic_space(), 1, &model);
    int asked = 0;
    for (auto candidates = strategy->ask(8); !candidates.empty(); candidates = strategy->ask(8)) {
      asked += static_cast<int>(candidates.size());
      EXPECT_GE(strategy->expected(), asked);
      EXPECT_LE(strategy->expected(), 3 * plan::kVariantCount);
      for (const Candidate& candidate : candidates)
        strategy->tell(candidate, {true, synthetic_time(candidate)});
    }
    EXPECT_EQ(strategy->expected(), asked) << promising;
  }
}

TEST(Registry, FindsByName) {
  ASSERT_NE(find_strategy("exhaustive"), nullptr);
  EXPECT_EQ(find_strategy("exhaustiv"), nullptr);
  EXPECT_EQ(find_strategy("mask"), nullptr) << "it times whole plans";
  EXPECT_NE(make_strategy("exhaustive", synthetic_space(), 0), nullptr);
}

// A failed launch is not a time of 0.
TEST(Incumbents, MeaninglessTimesNeverCount) {
  Incumbents best;
  for (const double time : {0.0, -1.0, kNaN, kInfinity, -kInfinity}) {
    EXPECT_FALSE(best.tell({3, schedule(64)}, {true, time}));
  }
  EXPECT_FALSE(best.tell({3, schedule(64)}, {false, 1.0}));
  EXPECT_EQ(best.count(), 0);
  EXPECT_TRUE(std::isinf(best.costs()[3]));
}

TEST(Incumbents, OrderOfEqualTimesDoesNotMatter) {
  const Candidate small{3, schedule(32)}, large{3, schedule(64)};
  Incumbents forward, backward;
  forward.tell(small, {true, 5});
  forward.tell(large, {true, 5});
  backward.tell(large, {true, 5});
  backward.tell(small, {true, 5});
  EXPECT_EQ(forward[3]->schedule, backward[3]->schedule);
}

// Limits of zero or less are usage errors.
TEST(StopConditions, ZeroAndNegativeAreUsageErrors) {
  EXPECT_NO_THROW(StopConditions{}.check());
  EXPECT_NO_THROW((StopConditions{.trials = 1, .seconds = 0.5, .early_stop = 1}.check()));
  for (const std::int64_t bad : {std::int64_t{0}, std::int64_t{-1}}) {
    EXPECT_THROW((StopConditions{.trials = bad, .seconds = {}, .early_stop = {}}.check()), base::UsageError);
    EXPECT_THROW((StopConditions{.trials = {}, .seconds = {}, .early_stop = bad}.check()), base::UsageError);
  }
  for (const double bad : {0.0, -1.0, kNaN, kInfinity}) {
    EXPECT_THROW((StopConditions{.trials = {}, .seconds = bad, .early_stop = {}}.check()), base::UsageError)
        << bad;
  }
}

TEST(StopRule, WhatIsBeingMeasuredCountsAsATrial) {
  StopRule rule({.trials = 3, .seconds = 10, .early_stop = {}});
  EXPECT_TRUE(rule.may_begin(0, 2));
  EXPECT_FALSE(rule.may_begin(0, 3));
  rule.measured(1);
  EXPECT_TRUE(rule.may_begin(0, 1));
  EXPECT_FALSE(rule.may_begin(0, 2));
  EXPECT_FALSE(rule.may_begin(10, 0)) << "the time is over";
  EXPECT_TRUE(StopRule({}).may_begin(1e9, 1000));
}

TEST(StopRule, StopsByEachCondition) {
  StopRule trials({.trials = 2, .seconds = {}, .early_stop = {}});
  trials.measured(kInfinity);
  EXPECT_EQ(trials.reached(0), "");
  EXPECT_EQ(trials.trials_left(), 1);
  trials.measured(kInfinity);
  EXPECT_THAT(trials.reached(0), testing::HasSubstr("--trials 2"));

  StopRule time({.trials = {}, .seconds = 10, .early_stop = {}});
  EXPECT_EQ(time.reached(9.9), "");
  EXPECT_NEAR(time.seconds_left(9.9).value(), 0.1, 1e-12);
  EXPECT_FALSE(time.trials_left());
  EXPECT_FALSE(trials.seconds_left(1));
  EXPECT_THAT(time.reached(10), testing::HasSubstr("--time-limit"));

  StopRule later({.trials = {}, .seconds = 10, .early_stop = {}, .spent_s = 8});
  EXPECT_EQ(later.reached(1.9), "");
  EXPECT_NEAR(later.seconds_left(1.5).value(), 0.5, 1e-12);
  EXPECT_EQ(later.reached(2), "--time-limit 10 s reached")
      << "the limit that was given, not what is left of it";
  StopRule last({.trials = 5, .seconds = {}, .early_stop = {}, .spent_trials = 4});
  EXPECT_EQ(last.trials_left(), 1);
  EXPECT_FALSE(last.may_begin(0, 1));
  last.measured(kInfinity);
  EXPECT_EQ(last.reached(0), "--trials 5 reached");

  StopRule early({.trials = {}, .seconds = {}, .early_stop = 3});
  for (int i = 0; i < 20; ++i) early.measured(kInfinity);  // no complete plan yet: nothing can improve
  EXPECT_EQ(early.reached(0), "");
  early.measured(10);
  early.measured(10);
  early.measured(9);  // improves: counting starts again
  early.measured(9);
  early.measured(9);
  EXPECT_EQ(early.reached(0), "");
  early.measured(9);
  EXPECT_THAT(early.reached(0), testing::HasSubstr("--early-stop"));
}

plan::VariantCosts random_costs(unsigned seed, double missing) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<double> time(1, 100), chance(0, 1);
  plan::VariantCosts costs;
  for (double& cost : costs) cost = chance(generator) < missing ? kInfinity : time(generator);
  return costs;
}

TEST(Selection, FinalistsAreTheCheapestOfAllPlansThenTheReferences) {
  for (unsigned seed = 0; seed < 5; ++seed) {
    const plan::VariantCosts costs = random_costs(seed, 0.1);
    std::vector<double> sums;
    for (const plan::FusionPlan& plan : plan::all_plans()) sums.push_back(plan::plan_cost(plan, costs));
    std::sort(sums.begin(), sums.end());
    const std::vector<Finalist> finalists = select_finalists(costs, 8);
    if (std::isinf(sums[0])) {
      EXPECT_TRUE(finalists.empty());
      continue;
    }
    ASSERT_GE(finalists.size(), 8u);
    ASSERT_LE(finalists.size(), 11u);
    for (std::size_t i = 0; i < 8; ++i) EXPECT_NEAR(finalists[i].sum_us, sums[i], 1e-9) << seed;
    std::set<plan::FusionPlan> distinct;
    for (const Finalist& finalist : finalists) distinct.insert(finalist.plan);
    EXPECT_EQ(distinct.size(), finalists.size());
  }
}

TEST(Selection, ReferencesAreThereWhereverTheyCanRun) {
  plan::VariantCosts costs = random_costs(1, 0);
  const auto masks_of = [](const std::vector<Finalist>& finalists) {
    std::set<int> masks;
    for (const Finalist& finalist : finalists) masks.insert(finalist.plan.canonical_mask().value);
    return masks;
  };
  const std::set<int> all = masks_of(select_finalists(costs, 13));
  EXPECT_LE(all.size(), static_cast<std::size_t>(kMaximumFinalists));
  for (const ReferencePlan& reference : reference_plans()) {
    EXPECT_TRUE(all.contains(reference.plan.canonical_mask().value)) << reference.name;
  }
  costs[static_cast<std::size_t>(plan::variant_index({{0, 14}, false}))] = kInfinity;
  EXPECT_FALSE(
      masks_of(select_finalists(costs, 2)).contains(plan::FusionPlan::all_fused().canonical_mask().value));
}

TEST(Selection, NothingWithoutACompletePlan) {
  plan::VariantCosts costs;
  costs.fill(kInfinity);
  EXPECT_TRUE(select_finalists(costs, 8).empty());
}

Contender contender(const plan::FusionPlan& plan, double ratio, double low, double high, bool valid = true) {
  return {plan, valid, ratio, low, high};
}

const plan::FusionPlan kUnfused = plan::FusionPlan::unfused();                   // 15 kernels
const plan::FusionPlan kFused = plan::FusionPlan::all_fused();                   // 1 kernel
const plan::FusionPlan kByteTransformer = plan::FusionPlan::byte_transformer();  // 7 kernels

TEST(Decide, TieIsAnIntervalThatIncludesOneOrAHalfPercent) {
  EXPECT_TRUE(is_tied(contender(kFused, 1.02, 0.99, 1.05)));
  EXPECT_TRUE(is_tied(contender(kFused, 1.004, 1.003, 1.0045)));
  EXPECT_TRUE(is_tied(contender(kFused, 0.996, 0.995, 0.997)));
  EXPECT_FALSE(is_tied(contender(kFused, 1.02, 1.01, 1.03)));
  EXPECT_FALSE(is_tied(contender(kFused, 0.98, 0.97, 0.99)));
  EXPECT_FALSE(is_tied(contender(kFused, 1, 1, 1, false)));
}

TEST(Decide, ClearWinnerStandsAlone) {
  const std::vector<Contender> field = {contender(kUnfused, 1, 1, 1), contender(kFused, 1.10, 1.09, 1.11)};
  const Decision decision = decide(field);
  EXPECT_EQ(decision.winner, 0u);
  EXPECT_EQ(decision.tied, std::vector<std::size_t>{0});
  EXPECT_FALSE(decision.challenger);
}

TEST(Decide, TiesGoToFewerKernels) {
  const std::vector<Contender> field = {contender(kUnfused, 1, 1, 1),
                                        contender(kByteTransformer, 1.003, 1.001, 1.006),
                                        contender(kFused, 1.008, 0.98, 1.04)};
  EXPECT_EQ(decide(field).winner, 2u);
  EXPECT_EQ(decide(field).tied, (std::vector<std::size_t>{2, 1, 0}));
}

// Where a noisy machine ties everything, fewer kernels are no reason to take what seems clearly slower.
TEST(Decide, FewerKernelsWinNoTieThatTheySeemToLose) {
  const std::vector<Contender> field = {contender(kFused, 1, 1, 1),
                                        contender(kByteTransformer, 0.955, 0.90, 1.01),
                                        contender(kUnfused, 0.95, 0.90, 1.02)};
  EXPECT_EQ(decide(field).winner, 1u);
  EXPECT_EQ(decide(field).tied, (std::vector<std::size_t>{1, 2, 0}));
}

TEST(Decide, EqualKernelCountsGoToTheSmallerMask) {
  std::vector<plan::FusionPlan> two;
  for (const plan::FusionPlan& plan : plan::all_plans()) {
    if (plan.kernel_count() == 2 && two.size() < 2) two.push_back(plan);
  }
  ASSERT_LT(two[0].canonical_mask().value, two[1].canonical_mask().value);
  EXPECT_EQ(
      decide(std::vector<Contender>{contender(two[1], 1, 1, 1), contender(two[0], 1, 0.99, 1.01)}).winner,
      1u);
  EXPECT_EQ(
      decide(std::vector<Contender>{contender(two[0], 1, 1, 1), contender(two[1], 1, 0.99, 1.01)}).winner,
      0u);
}

// Two runs whose medians differ within the noise name the same winner.
TEST(Decide, NoiseDoesNotChangeTheWinner) {
  std::mt19937 generator(7);
  std::normal_distribution<double> noise(0, 0.002);
  std::set<plan::FusionPlan> winners;
  for (int run = 0; run < 200; ++run) {
    std::vector<Contender> field = {contender(kByteTransformer, 1, 1, 1)};
    for (const plan::FusionPlan& plan : {kUnfused, kFused}) {
      const double ratio = 1.0 + noise(generator);
      field.push_back(contender(plan, ratio, ratio - 0.01, ratio + 0.01));
    }
    if (run % 2 == 1) std::swap(field[1], field[2]);
    winners.insert(field[decide(field).winner].plan);
  }
  EXPECT_EQ(winners, std::set<plan::FusionPlan>{kFused});
}

TEST(Decide, FasterPlanBecomesTheNextBaseline) {
  const std::vector<Contender> field = {contender(kUnfused, 1, 1, 1),
                                        contender(kByteTransformer, 0.95, 0.94, 0.96),
                                        contender(kFused, 0.90, 0.89, 0.91)};
  EXPECT_EQ(decide(field).challenger, 2u);
}

TEST(Decide, WrongOrFailedPlanNeverWins) {
  const std::vector<Contender> field = {contender(kUnfused, 1, 1, 1), contender(kFused, 0.1, 0.1, 0.1, false),
                                        contender(kByteTransformer, 1, 0.99, 1.01, false)};
  const Decision decision = decide(field);
  EXPECT_EQ(decision.winner, 0u);
  EXPECT_EQ(decision.tied, std::vector<std::size_t>{0});
  EXPECT_FALSE(decision.challenger);
  EXPECT_THROW(decide(std::vector<Contender>{contender(kFused, 1, 1, 1, false)}), base::InternalError);
  EXPECT_THROW(decide({}), base::InternalError);
}

std::vector<Recording> recordings() {
  std::vector<Recording> rows;
  const Space space = synthetic_space();
  for (int variant = 0; variant < plan::kVariantCount; ++variant) {
    for (const int tile : {4, 6, 8}) {
      for (const lower::AnySchedule& each : space.schedules(variant, {tile, 16, 768})) {
        const Candidate candidate{variant, each};
        rows.push_back({variant, each.to_string(), {variant % 10 != 9, synthetic_time(candidate)}});
      }
    }
  }
  return rows;
}

TEST(Replay, ASearchFindsTheRecordedOptimum) {
  const Replay replay(recordings());
  const auto strategy = make_strategy("exhaustive", replay.space(), 11);
  const ReplayResult result = replay_search(*strategy, replay);
  EXPECT_EQ(result.stopped, "");
  plan::VariantCosts truth;
  truth.fill(kInfinity);
  for (const Recording& row : recordings()) {
    const auto index = static_cast<std::size_t>(row.variant);
    if (row.trial.ok) truth[index] = std::min(truth[index], row.trial.time_us);
  }
  const auto best = plan::cheapest_plans(truth, 1), found = plan::cheapest_plans(result.best.costs(), 1);
  ASSERT_FALSE(best.empty());
  EXPECT_EQ(found.at(0).plan, best.at(0).plan);
  EXPECT_DOUBLE_EQ(found.at(0).cost, best.at(0).cost);
}

TEST(Replay, StopsWhereTold) {
  const Replay replay(recordings());
  const auto by_trials = make_strategy("exhaustive", replay.space(), 11);
  EXPECT_EQ(replay_search(*by_trials, replay, {.trials = 20, .seconds = {}, .early_stop = {}}).trials, 20);
  const auto by_time = make_strategy("exhaustive", replay.space(), 11);
  const ReplayResult timed =
      replay_search(*by_time, replay, {.trials = {}, .seconds = 1e-3, .early_stop = {}});
  EXPECT_GT(timed.trials, 10);  // 1 ms of kernels that take 13 to 60 us each
  EXPECT_LT(timed.trials, 80);
}

TEST(Replay, UnrecordedIsAFailureAndTheLastRecordingCounts) {
  const lower::Schedule known = schedule(64);
  const Replay replay(
      std::vector<Recording>{{5, known.to_string(), {true, 3}}, {5, known.to_string(), {true, 4}}});
  EXPECT_EQ(replay.measure({5, known}).time_us, 4);
  EXPECT_FALSE(replay.measure({6, known}).ok);
}

}  // namespace
}  // namespace fusetune::search
