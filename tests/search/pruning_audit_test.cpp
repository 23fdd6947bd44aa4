#include "search/pruning_audit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace fusetune::search {
namespace {

/// A block that is one kernel of 100 us: a candidate of its variant is as fast as the plan through it.
plan::VariantCosts costs() {
  plan::VariantCosts costs;
  costs.fill(std::numeric_limits<double>::infinity());
  costs[static_cast<std::size_t>(plan::variant_index({{0, 14}, false}))] = 100;
  return costs;
}

/// Schedules of the fused block, all predicted to take `predicted_us`.
std::vector<LeftOut> left_out(int count, double predicted_us) {
  std::vector<LeftOut> result;
  for (int i = 0; i < count; ++i) {
    lower::Schedule schedule;
    schedule.row_block = i + 1;
    result.push_back({{plan::variant_index({{0, 14}, false}), schedule}, predicted_us});
  }
  return result;
}

/// Tells the audit what each candidate takes, by its number from 0.
template <class Time>
PruningEstimate finish(PruningAudit& audit, const Time& time_us) {
  const std::vector<LeftOut> drawn = audit.drawn();
  for (const LeftOut& one : drawn)
    audit.tell(one.candidate,
               {true, static_cast<double>(time_us(one.candidate.schedule.cpu()->row_block - 1))});
  return audit.estimate();
}

TEST(MostLosses, IsTheExactLimitOfAFinitePopulation) {
  // All were looked at: what was seen is all there is.
  EXPECT_EQ(most_losses(20, 20, 0), 0);
  EXPECT_EQ(most_losses(20, 20, 3), 3);
  // None was: anything may be.
  EXPECT_EQ(most_losses(20, 0, 0), 20);
  // By hand: 2 of 10 drawn, none a loss. With K losses that has the probability (10-K)(9-K)/90: 6/90 for
  // K = 7, above 5 %, and 2/90 for K = 8.
  EXPECT_EQ(most_losses(10, 2, 0), 7);
  // A large population is binomial, 0 of 30: 1 - 0.05^(1/30) = 9.5 % (Clopper and Pearson).
  EXPECT_NEAR(static_cast<double>(most_losses(100000, 30, 0)) / 100000, 1 - std::pow(0.05, 1.0 / 30), 1e-3);
  EXPECT_GT(most_losses(100, 20, 2), most_losses(100, 20, 1));
}

// If so many are losses, at most one audit in twenty sees so few: the limit holds as often as it says.
TEST(MostLosses, CoversAsItSays) {
  RandomSource random(3);
  int covered = 0;
  constexpr int kTrials = 4000, kPopulation = 60, kDrawn = 15, kTruth = 9;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<int> items(kPopulation, 0);
    std::fill_n(items.begin(), kTruth, 1);
    random.shuffle(items);
    covered +=
        most_losses(kPopulation, kDrawn, std::count(items.begin(), items.begin() + kDrawn, 1)) >= kTruth;
  }
  EXPECT_GE(covered, 0.95 * kTrials);
}

TEST(PruningAudit, DrawsAnEighthAtRandomByTheSeed) {
  EXPECT_EQ(PruningAudit::draws(0), 0u);
  EXPECT_EQ(PruningAudit::draws(5), 5u);
  EXPECT_EQ(PruningAudit::draws(50), 12u);
  EXPECT_EQ(PruningAudit::draws(201), 26u);
  const auto drawn = [](std::uint64_t seed) {
    std::set<int> rows;
    const PruningAudit audit(left_out(200, 130), costs(), seed);
    for (const LeftOut& one : audit.drawn()) rows.insert(one.candidate.schedule.cpu()->row_block);
    return rows;
  };
  EXPECT_EQ(drawn(1).size(), 25u) << "each once";
  EXPECT_EQ(drawn(1), drawn(1));
  EXPECT_NE(drawn(1), drawn(2));
}

TEST(PruningAudit, PassesWhereTheModelWasRight) {
  PruningAudit audit(left_out(200, 130), costs(), 1);
  EXPECT_FALSE(audit.estimate().chance) << "nothing was measured yet";
  EXPECT_EQ(audit.estimate().share_at_most, 1);
  const PruningEstimate estimate = finish(audit, [](int i) { return 130 + i % 5; });
  EXPECT_TRUE(audit.complete());
  EXPECT_EQ(estimate.left_out, 200);
  EXPECT_EQ(estimate.audited, 25);
  EXPECT_EQ(estimate.losses, 0);
  EXPECT_EQ(estimate.chance, 0);
  EXPECT_NEAR(estimate.share_at_most, 0.105, 0.01);
  EXPECT_TRUE(estimate.passed());
}

TEST(PruningAudit, ErrorsAreInUnitsOfThePredictionsDeviation) {
  std::vector<LeftOut> kernels = left_out(200, 130);
  for (LeftOut& one : kernels) one.deviation_us = 0.1 * one.predicted_us;
  PruningAudit audit(kernels, costs(), 1);
  EXPECT_FALSE(audit.error_size());
  // One deviation off, and 2 % that no prediction can know.
  finish(audit, [](int i) { return 130 * std::exp(i % 2 == 0 ? 0.1 : -0.1); });
  EXPECT_NEAR(audit.error_size().value(), 0.1 / std::hypot(0.02, 0.1), 1e-9);

  PruningAudit one_far_off(kernels, costs(), 1);
  const int odd = one_far_off.drawn().front().candidate.schedule.cpu()->row_block - 1;
  finish(one_far_off, [&](int i) { return i == odd ? 13000 : 130; });
  EXPECT_NEAR(one_far_off.error_size().value(), 3 / std::sqrt(25), 1e-9) << "it counts as three deviations";
}

TEST(PruningAudit, AChanceThatDrawsSettledStandsForTheSimulation) {
  PruningAudit audit(left_out(200, 130), costs(), 1);
  EXPECT_TRUE(finish(audit, [](int i) { return 130 + i % 5; }).passed());
  audit.settle(0.2);
  EXPECT_EQ(audit.estimate().chance, 0.2);
  EXPECT_FALSE(audit.estimate().passed());
  PruningAudit all(left_out(12, 130), costs(), 1);
  finish(all, [](int) { return 130; });
  all.settle(0.2);
  EXPECT_EQ(all.estimate().chance, 0) << "none is left that could be faster";
}

TEST(PruningAudit, CountsWhatWouldHaveBeenMoreThanAPercentFaster) {
  PruningAudit audit(left_out(12, 130), costs(), 1);
  // 99.5 us is faster, but not by a percent; of 98 us three.
  const PruningEstimate estimate = finish(audit, [](int i) { return i < 3 ? 98 : i < 6 ? 99.5 : 120; });
  EXPECT_EQ(estimate.audited, 12);
  EXPECT_EQ(estimate.losses, 3);
  EXPECT_EQ(estimate.share_at_most, 0.25) << "all were measured";
  EXPECT_EQ(estimate.chance, 0) << "what was found is found";
  EXPECT_FALSE(estimate.passed());
}

// No loss among those drawn, but the model is as wrong as it would have to be of others.
TEST(PruningAudit, FailsWhereTheModelIsTooUnsure) {
  std::vector<LeftOut> candidates = left_out(200, 130);
  for (std::size_t i = 0; i < candidates.size(); i += 2) candidates[i].predicted_us = 105;
  const auto chance = [&](double of_130) {
    PruningAudit audit(candidates, costs(), 1);
    const PruningEstimate estimate = finish(audit, [&](int i) { return i % 2 == 0 ? 106 : of_130; });
    EXPECT_EQ(estimate.losses, 0);
    return *estimate.chance;
  };
  EXPECT_EQ(chance(128), 0);
  // As wrong of those at 105 they would take 98.7.
  EXPECT_GT(chance(101), 0.9);
}

// Gains of two kernels, none of them a percent alone, together are one.
TEST(PruningAudit, ThinksOfGainsTogether) {
  const int first = plan::variant_index({{0, 6}, false}), second = plan::variant_index({{7, 14}, false});
  plan::VariantCosts three = costs();
  three[static_cast<std::size_t>(plan::variant_index({{0, 14}, false}))] = 200;
  three[static_cast<std::size_t>(first)] = three[static_cast<std::size_t>(second)] = 50;
  const auto chance = [&](std::vector<int> halves) {
    std::vector<LeftOut> candidates = left_out(200, 202);
    for (const int variant : halves) candidates.push_back({{variant, lower::Schedule{}}, 50});
    PruningAudit audit(candidates, three, 1);
    for (const LeftOut& one : audit.drawn()) EXPECT_EQ(one.predicted_us, 202) << "another seed, please";
    const PruningEstimate estimate = finish(audit, [](int) { return 198.37; });
    EXPECT_EQ(estimate.losses, 0) << "they are in no good plan";
    return *estimate.chance;
  };
  // As wrong of the halves they take 49.4.
  EXPECT_EQ(chance({first}), 0);
  EXPECT_EQ(chance({first, second}), 1);
}

TEST(PruningAudit, AFailedCandidateIsNoLoss) {
  PruningAudit audit(left_out(100, 130), costs(), 1);
  const std::vector<LeftOut> drawn = audit.drawn();
  for (const LeftOut& one : drawn) audit.tell(one.candidate, {});
  EXPECT_EQ(audit.estimate().audited, 13);
  EXPECT_EQ(audit.estimate().losses, 0);
  EXPECT_FALSE(audit.estimate().chance) << "no time, no error of the model";
  EXPECT_FALSE(audit.estimate().passed());
}

TEST(PruningAudit, CutShortItHasTheLimitButNoChance) {
  PruningAudit audit(left_out(200, 130), costs(), 1);
  for (int i = 0; i < 10; ++i) audit.tell(audit.drawn()[static_cast<std::size_t>(i)].candidate, {true, 130});
  EXPECT_FALSE(audit.complete());
  EXPECT_EQ(audit.estimate().audited, 10);
  EXPECT_LT(audit.estimate().share_at_most, 0.3);
  EXPECT_FALSE(audit.estimate().chance);
  audit.tell({0, lower::Schedule{}}, {true, 1});  // not drawn: no part of it
  EXPECT_EQ(audit.estimate().audited, 10);
}

}  // namespace
}  // namespace fusetune::search
