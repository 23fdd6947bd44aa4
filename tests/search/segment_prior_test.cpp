// Priors: the test that they have to pass, and what one that passed changes.
#include "search/segment_prior.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <utility>

#include "model/synthetic.h"
#include "search/model_prior.h"
#include "search/recorded_prior.h"
#include "search/strategy.h"
#include "search/tile_tuning.h"

namespace fusetune::search {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// Says whatever it is told to.
class SpokenPrior : public SegmentPrior {
 public:
  explicit SpokenPrior(std::function<double(const Candidate&)> say) : say_(std::move(say)) {}
  std::string_view kind() const override { return "spoken"; }
  std::string name() const override { return "a test's"; }
  std::vector<double> predict_us(std::span<const Candidate> candidates) const override {
    std::vector<double> times;
    for (const Candidate& one : candidates) times.push_back(say_(one));
    return times;
  }

 private:
  std::function<double(const Candidate&)> say_;
};

/// `count` variants that take 10, 11, 12, ... us and need work in the same order.
Probes probes(int count) {
  Probes probes;
  for (int i = 0; i < count; ++i) {
    probes.candidates.push_back({i, lower::Schedule{}});
    probes.measured_us.push_back(10.0 + i);
    probes.work.push_back(1.0 + i);
  }
  return probes;
}

PriorTest tested(const Probes& probes, std::function<double(int variant)> say) {
  return test_prior(SpokenPrior([&](const Candidate& one) { return say(one.variant); }), probes);
}

TEST(PriorTest, OneThatRanksTheProbesIsTrusted) {
  const PriorTest test = tested(probes(12), [](int variant) { return 2 * (10.0 + variant); });
  EXPECT_TRUE(test.trusted);
  EXPECT_EQ(test.kind, "spoken");
  EXPECT_EQ(test.name, "a test's");
  EXPECT_EQ(test.probes, 12u);
  EXPECT_DOUBLE_EQ(test.spearman, 1);
  EXPECT_DOUBLE_EQ(test.roofline, 1);
  EXPECT_DOUBLE_EQ(test.scale, 0.5);
}

TEST(PriorTest, TooFewProbesTrustNone) {
  const PriorTest test = tested(probes(11), [](int variant) { return 10.0 + variant; });
  EXPECT_FALSE(test.trusted);
  EXPECT_EQ(test.probes, 11u);
  EXPECT_TRUE(std::isnan(test.spearman));
}

TEST(PriorTest, WhatIsNotKnownIsNoProbe) {
  const auto without_every_third = [](int variant) { return variant % 3 == 0 ? kNaN : 10.0 + variant; };
  const PriorTest enough = tested(probes(18), without_every_third);
  EXPECT_TRUE(enough.trusted);
  EXPECT_EQ(enough.probes, 12u);
  EXPECT_DOUBLE_EQ(enough.scale, 1);
  EXPECT_FALSE(tested(probes(17), without_every_third).trusted) << "11 are left";
  for (const double none : {kNaN, 0.0, -1.0, std::numeric_limits<double>::infinity()}) {
    const PriorTest nothing = tested(probes(20), [&](int /*variant*/) { return none; });
    EXPECT_EQ(nothing.probes, 0u) << none;
    EXPECT_FALSE(nothing.trusted) << none;
  }
}

TEST(PriorTest, EqualTimesRankNothing) {
  const PriorTest test = tested(probes(20), [](int /*variant*/) { return 5.0; });
  EXPECT_FALSE(test.trusted);
  EXPECT_TRUE(std::isnan(test.spearman));
  // Ties share their rank: pairs of equal times cost little, two classes too much.
  Probes blind = probes(20);
  blind.work.clear();
  EXPECT_TRUE(tested(blind, [](int variant) { return std::floor(10 + 0.5 * variant); }).trusted);
  EXPECT_FALSE(tested(blind, [](int variant) { return variant < 10 ? 1.0 : 2.0; }).trusted);
}

TEST(PriorTest, HasToRankNoWorseThanTheRoofline) {
  const auto nearly = [](int variant) { return 10.0 + (variant ^ 1); };  // neighbours change places
  const PriorTest worse = tested(probes(20), nearly);
  EXPECT_GT(worse.spearman, kTrustedSpearman);
  EXPECT_LT(worse.spearman, worse.roofline);
  EXPECT_FALSE(worse.trusted);
  Probes blind = probes(20);
  blind.work.assign(20, 1);  // ranks nothing
  EXPECT_TRUE(tested(blind, nearly).trusted);
  blind.work.clear();
  EXPECT_TRUE(std::isnan(tested(blind, nearly).roofline));
  EXPECT_TRUE(tested(blind, nearly).trusted);
}

TEST(PriorTest, NeedsASpearmanOfNineTenths) {
  // A Spearman of 1 - 6 sum(d^2) / (n (n^2 - 1)) on 20 places: the sum may be 133 for 0.9.
  Probes blind = probes(20);
  blind.work.clear();
  std::vector<double> said(20);
  for (int i = 0; i < 20; ++i) said[static_cast<std::size_t>(i)] = 10.0 + i;
  std::swap(said[0], said[8]);  // 2 * 64 = 128
  EXPECT_TRUE(tested(blind, [&](int variant) { return said[static_cast<std::size_t>(variant)]; }).trusted);
  std::swap(said[12], said[14]);  // and 8: 136
  EXPECT_FALSE(tested(blind, [&](int variant) { return said[static_cast<std::size_t>(variant)]; }).trusted);
}

lower::Schedule rows(int row_block) {
  lower::Schedule schedule;
  schedule.row_block = row_block;
  return schedule;
}

TEST(RecordedPrior, KnowsWhatAKernelTookThereElseItsVariantsFastest) {
  const std::vector<Recording> recordings = {{3, rows(64).to_string(), {true, 7}},
                                             {3, rows(32).to_string(), {true, 5}},
                                             {4, rows(64).to_string(), {true, 9}},
                                             {5, rows(64).to_string(), {}}};
  const RecordedPrior prior("there", recordings, lower::CpuTarget());
  const std::vector<Candidate> asked = {{3, rows(64)}, {3, rows(32)}, {3, rows(128)},
                                        {4, rows(32)}, {5, rows(64)}, {6, rows(64)}};
  EXPECT_THAT(prior.predict_us(asked), testing::ElementsAre(7, 5, 5, 9, testing::IsNan(), testing::IsNan()));
  EXPECT_EQ(prior.kind(), "records");
  EXPECT_EQ(prior.name(), "there");
}

TEST(ModelPrior, SaysWhatItsModelPredictsOnTheDevice) {
  const block::Problem problem = model::small_problem();
  const model::Device device{lower::CpuTarget()};
  const model::ProblemFacts facts(problem);
  model::TrainingSet set(model::Schema::segment);
  const std::size_t group = set.group(problem.key());
  const Space space = segment_space(problem, device.target);
  std::vector<Candidate> candidates;
  for (int variant = 0; variant < plan::kVariantCount; ++variant) {
    const plan::SegmentVariant& each = plan::all_variants()[static_cast<std::size_t>(variant)];
    candidates.push_back({variant, space.schedules(variant, {}).front()});
    set.add(each, candidates.back().schedule, facts, device,
            {.time = 5.0 * each.segment.size(), .group = group, .high = each.segment.size() == 1});
  }
  model::Trained trained = model::CostModel::train(set, {.rounds = 20});
  ASSERT_TRUE(trained.model) << trained.missing;
  const auto predicted = trained.model->predict(set.features());
  const ModelPrior prior("some.json", std::move(*trained.model), problem, device);
  const std::vector<double> times = prior.predict_us(candidates);
  ASSERT_EQ(times.size(), predicted.size());
  for (std::size_t i = 0; i < times.size(); ++i) EXPECT_EQ(times[i], predicted[i].time) << i;
  EXPECT_EQ(prior.kind(), "model");
}

/// Three row blocks, the default not the fastest; larger segments take longer, but are worth it.
Space space() {
  const auto schedules = [](int /*variant*/, const GemmTile& /*tile*/) {
    return std::vector<lower::AnySchedule>{rows(64), rows(32), rows(128)};
  };
  const auto work = [](int variant) {
    return Work{static_cast<double>(plan::all_variants()[static_cast<std::size_t>(variant)].segment.size()),
                0};
  };
  return {schedules, work};
}

double time_of(const Candidate& candidate) {
  const plan::Segment& segment = plan::all_variants()[static_cast<std::size_t>(candidate.variant)].segment;
  return 20 + 3 * segment.size() + 0.01 * candidate.variant - (candidate.schedule == rows(32) ? 1 : 0);
}

struct Searched {
  std::vector<Candidate> order;
  std::vector<PriorTest> tests;
};

Searched search_with(Priors priors) {
  // Nothing is proved irrelevant, so that what a prior says is all that speaks against a kernel.
  const auto strategy =
      make_strategy("guided", space(), 1, nullptr, {.alpha = 0, .epsilon = 0}, std::move(priors));
  Searched result;
  for (auto asked = strategy->ask(1); !asked.empty(); asked = strategy->ask(1)) {
    result.order.push_back(asked.front());
    strategy->tell(asked.front(), {true, time_of(asked.front())});
  }
  result.tests.assign(strategy->prior_tests().begin(), strategy->prior_tests().end());
  return result;
}

std::shared_ptr<const SegmentPrior> spoken(std::function<double(const Candidate&)> say) {
  return std::make_shared<SpokenPrior>(std::move(say));
}

/// Of each variant what was timed first, in that order.
std::vector<Candidate> firsts(const std::vector<Candidate>& order) {
  std::vector<Candidate> result;
  for (const Candidate& one : order)
    if (std::none_of(result.begin(), result.end(),
                     [&](const Candidate& known) { return known.variant == one.variant; }))
      result.push_back(one);
  return result;
}

TEST(GuidedPrior, ATrustedOneSaysWhatIsTimedFirst) {
  // That one kernel from the second operator to the last would take next to nothing no other kernel says.
  const int wanted = plan::variant_index({{1, 14}, false});
  const Searched found = search_with(
      {spoken([&](const Candidate& one) { return one.variant == wanted ? 1 : 3 * time_of(one); })});
  ASSERT_EQ(found.tests.size(), 1u);
  EXPECT_TRUE(found.tests[0].trusted) << found.tests[0].spearman;
  EXPECT_GE(found.tests[0].probes, kFewestProbes);
  EXPECT_NEAR(found.tests[0].scale, 1.0 / 3, 1e-9);
  const std::vector<Candidate> order = firsts(found.order);
  const auto place =
      std::find_if(order.begin(), order.end(), [&](const auto& one) { return one.variant == wanted; });
  EXPECT_LT(place - order.begin(), static_cast<std::ptrdiff_t>(found.tests[0].probes) + 16)
      << "in the first round";
  EXPECT_NE(found.order, search_with({}).order);
}

TEST(GuidedPrior, ARefusedOneChangesNothing) {
  const Searched without = search_with({});
  EXPECT_TRUE(without.tests.empty());
  std::mt19937 random(5);
  std::vector<double> shuffled(plan::kVariantCount);
  for (double& one : shuffled) one = 1 + std::uniform_real_distribution<double>()(random);
  const Priors bad = {
      spoken([](const Candidate& one) { return 1 / time_of(one); }),
      spoken([&](const Candidate& one) { return shuffled[static_cast<std::size_t>(one.variant)]; }),
      spoken([](const Candidate& /*one*/) { return kNaN; })};
  for (const auto& prior : bad) {
    const Searched with = search_with({prior});
    ASSERT_EQ(with.tests.size(), 1u);
    EXPECT_FALSE(with.tests[0].trusted);
    EXPECT_EQ(with.order, without.order);
  }
}

TEST(GuidedPrior, TheNextIsTestedWhereTheFirstIsRefused) {
  const auto good = spoken([](const Candidate& one) { return time_of(one); });
  const auto bad = spoken([](const Candidate& one) { return 1 / time_of(one); });
  const Searched both = search_with({bad, good});
  ASSERT_EQ(both.tests.size(), 2u);
  EXPECT_FALSE(both.tests[0].trusted);
  EXPECT_TRUE(both.tests[1].trusted);
  EXPECT_EQ(both.order, search_with({good}).order);
  EXPECT_EQ(search_with({good, bad}).tests.size(), 1u) << "nothing is asked of those behind a trusted one";
}

TEST(GuidedPrior, WhatItKnowsNothingOfIsAsItsOperatorsAlone) {
  const Searched found =
      search_with({spoken([](const Candidate& one) { return one.variant % 7 == 0 ? kNaN : time_of(one); })});
  ASSERT_EQ(found.tests.size(), 1u);
  EXPECT_TRUE(found.tests[0].trusted);
  const std::vector<Candidate> first = firsts(found.order);
  EXPECT_GT(
      std::count_if(first.begin(), first.end(), [](const Candidate& one) { return one.variant % 7 == 0; }),
      2);
}

TEST(GuidedPrior, ExhaustiveTakesNone) {
  EXPECT_TRUE(takes_priors("guided"));
  EXPECT_FALSE(takes_priors("exhaustive"));
  EXPECT_FALSE(takes_priors("mask"));
}

}  // namespace
}  // namespace fusetune::search
