// Plans timed whole after their segments, on synthetic times: no device anywhere.
#include "search/plan_refinement.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include "base/error.h"

namespace fusetune::search {
namespace {

using plan::FusionPlan;
using ::testing::Each;
using ::testing::Field;
using ::testing::Ge;
using ::testing::Le;

constexpr int kFinalists = 8;

/// Standard normal, from twelve uniform draws.
double normal(RandomSource& random) {
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += random.unit();
  return sum;
}

/// A problem: what segments take, and what a whole plan takes beyond their sum. Borders pay off in the sum,
/// so that the best sums have many kernels, and cost more than that in the whole plan.
class Truth {
 public:
  /// `bend`: what the law has that is neither linear nor a border's own; `own`: what single plans have.
  explicit Truth(std::uint64_t seed, double bend = 0, double own = 0) : own_(own), bend_(bend), seed_(seed) {
    RandomSource random(seed);
    std::array<double, 15> fused{};
    for (double& each : fused) each = 0.3 + 1.5 * random.unit();  // us that fusing across a border costs
    for (double& each : border_) each = 0.004 + 0.008 * random.unit();
    for (int variant = 0; variant < plan::kVariantCount; ++variant) {
      const plan::SegmentVariant& one = plan::all_variants()[static_cast<std::size_t>(variant)];
      double cost = 10.0 * one.segment.size() * (one.hand_written ? 0.99 : 1);
      for (int op = one.segment.first; op < one.segment.last; ++op)
        cost += fused[static_cast<std::size_t>(op)];
      costs_[static_cast<std::size_t>(variant)] = cost * (1 + 0.002 * normal(random));
    }
  }

  const plan::VariantCosts& costs() const { return costs_; }

  double whole_us(const FusionPlan& plan) const {
    double log_ratio = 0;
    for (std::size_t border = 0; border < border_.size(); ++border)
      if ((plan.borders() >> border & 1) != 0) log_ratio += border_[border];
    const double share = (plan.kernel_count() - 1) / 14.0;
    log_ratio += bend_ * share * share;
    RandomSource random(seed_ * 1000003 + plan.canonical_mask().value);
    return plan::plan_cost(plan, costs_) * std::exp(log_ratio + own_ * normal(random));
  }

  FusionPlan best() const {
    return *std::min_element(
        plan::all_plans().begin(), plan::all_plans().end(),
        [this](const FusionPlan& a, const FusionPlan& b) { return whole_us(a) < whole_us(b); });
  }

  /// How much slower than the best the best of these is.
  double regret(const std::vector<Finalist>& finalists) const {
    double least = std::numeric_limits<double>::infinity();
    for (const Finalist& one : finalists) least = std::min(least, whole_us(one.plan));
    return least / whole_us(best()) - 1;
  }

 private:
  plan::VariantCosts costs_{};
  std::array<double, 14> border_{};
  double own_, bend_;
  std::uint64_t seed_;
};

using Measure = std::function<Trial(const FusionPlan&)>;

/// Asks and tells until it is done; the plans in the order they were asked for.
std::vector<FusionPlan> drive(PlanRefinement& refinement, const Measure& measure, int limit = 32) {
  std::vector<FusionPlan> asked;
  for (auto batch = refinement.ask(limit); !batch.empty(); batch = refinement.ask(limit))
    for (const PlanCandidate& one : batch) {
      asked.push_back(one.plan);
      refinement.tell(one.plan, measure(one.plan));
    }
  return asked;
}

Measure noisy(const Truth& truth, double noise, std::uint64_t seed) {
  return [&truth, noise, random = RandomSource(seed)](const FusionPlan& plan) mutable {
    return Trial{true, truth.whole_us(plan) * std::exp(noise * normal(random))};
  };
}

Measure sums(const Truth& truth) {
  return [&truth](const FusionPlan& plan) { return Trial{true, plan::plan_cost(plan, truth.costs())}; };
}

bool contains(const std::vector<Finalist>& finalists, const FusionPlan& plan) {
  return std::any_of(finalists.begin(), finalists.end(),
                     [&](const Finalist& one) { return one.plan == plan; });
}

TEST(PlanRefinement, AsGoodAsTheBestPlanIsAmongTheFinalistsWhereTheSumMissesIt) {
  constexpr int kTruths = 4;
  for (const double noise : {0.0, 0.002}) {
    double refined = 0;
    for (std::uint64_t seed = 1; seed <= kTruths; ++seed) {
      const Truth truth(seed);
      ASSERT_GT(truth.regret(select_finalists(truth.costs(), kFinalists)), 0.003) << "too easy a truth";
      PlanRefinement refinement(truth.costs(), kFinalists, seed);
      drive(refinement, noisy(truth, noise, seed));
      refined += truth.regret(refinement.finalists()) / kTruths;
    }
    EXPECT_LT(refined, 0.002) << "noise " << noise;
  }
}

// One percent of noise, and a law with a bend: nobody can name the best plan then.
TEST(PlanRefinement, TheFinalistsAreGoodUnderNoiseAndAnotherLaw) {
  double refined = 0, by_sum = 0;
  constexpr int kTruths = 4;
  for (std::uint64_t seed = 1; seed <= kTruths; ++seed) {
    const Truth truth(seed, 0.03, 0.003);
    PlanRefinement refinement(truth.costs(), kFinalists, seed);
    drive(refinement, noisy(truth, 0.01, seed));
    refined += truth.regret(refinement.finalists()) / kTruths;
    by_sum += truth.regret(select_finalists(truth.costs(), kFinalists)) / kTruths;
  }
  EXPECT_LT(refined, 0.006);
  EXPECT_GT(by_sum, 0.01);
}

TEST(PlanRefinement, BeginsWithTheBestSumsAndPlansThatDiffer) {
  const Truth truth(1);
  PlanRefinement refinement(truth.costs(), kFinalists, 1);
  const auto first = refinement.ask(100);
  EXPECT_TRUE(refinement.ask(100).empty()) << "it waits for results";
  ASSERT_EQ(first.size(), 16u);
  EXPECT_THAT(first, Each(Field(&PlanCandidate::uniform, false)));
  const auto sums = plan::cheapest_plans(truth.costs(), kFinalists);
  int borders_seen = 0, borders_unseen = 0;
  for (const plan::RankedPlan& one : sums)
    EXPECT_EQ(std::count(first.begin(), first.end(), PlanCandidate{one.plan, false}), 1)
        << one.plan.to_string();
  for (const PlanCandidate& one : first) {
    EXPECT_LE(plan::plan_cost(one.plan, truth.costs()), 1.06 * sums.front().cost);
    borders_seen |= one.plan.borders();
    borders_unseen |= ~one.plan.borders() & 0x3fff;
  }
  EXPECT_EQ(borders_seen & borders_unseen, 0x3fff) << "each border is met and missed";
}

TEST(PlanRefinement, AsksForEachPlanAtMostOnceAndRepeatsItselfWithTheSameSeed) {
  const Truth truth(2, 0.03, 0.003);
  const auto run = [&](std::uint64_t seed, int limit) {
    PlanRefinement refinement(truth.costs(), kFinalists, seed);
    auto asked = drive(refinement, noisy(truth, 0.01, 5), limit);
    EXPECT_THAT(static_cast<int>(asked.size()), Le(refinement.expected()));
    EXPECT_EQ(refinement.timed(), static_cast<std::int64_t>(asked.size()));
    EXPECT_EQ(refinement.timed() + refinement.predicted(), plan::kPlanCount);
    return asked;
  };
  const auto asked = run(1, 32);
  EXPECT_EQ(std::set<FusionPlan>(asked.begin(), asked.end()).size(), asked.size());
  EXPECT_EQ(run(1, 32), asked);
  EXPECT_EQ(run(1, 3), asked) << "how many it may ask for at once changes nothing";
  EXPECT_NE(run(2, 32), asked);
}

TEST(PlanRefinement, EndsWhereNoPlanIsExpectedToBeFaster) {
  const Truth truth(1);
  PlanRefinement refinement(truth.costs(), kFinalists, 1);
  EXPECT_LT(drive(refinement, sums(truth)).size(), 32u)
      << "the sum is the truth: little is left to be learnt";
  EXPECT_TRUE(refinement.ask(8).empty());
}

/// The kernels of a truth, exactly timed.
std::vector<TimedEdge> edges_of(const Truth& truth) {
  std::vector<TimedEdge> edges;
  for (int variant = 0; variant < plan::kVariantCount; ++variant)
    edges.push_back({variant, truth.costs()[static_cast<std::size_t>(variant)], 0, 1});
  return edges;
}

TEST(PlanRefinement, EndsAfterTheFirstBatchWhereTheCertificateCloses) {
  const Truth truth(1);
  PlanRefinement closes(truth.costs(), kFinalists, 1, PlanClosing(edges_of(truth), 0.02));
  const std::vector<FusionPlan> asked = drive(closes, sums(truth));
  EXPECT_TRUE(closes.closed());
  EXPECT_EQ(closes.ask(8).size(), 0u);
  PlanRefinement unlimited(truth.costs(), kFinalists, 1);
  const std::vector<PlanCandidate> first = unlimited.ask(1000);
  EXPECT_EQ(asked.size(), first.size());
}

TEST(PlanRefinement, AnOpenCertificateChangesNothing) {
  const Truth truth(1);
  PlanRefinement without(truth.costs(), kFinalists, 1),
      open(truth.costs(), kFinalists, 1, PlanClosing(edges_of(truth), 0));
  EXPECT_EQ(drive(without, noisy(truth, 0.002, 1)), drive(open, noisy(truth, 0.002, 1)));
  EXPECT_FALSE(open.closed());
}

TEST(PlanRefinement, ManyFinalistsKeepTheirNumber) {
  const Truth truth(1);
  PlanRefinement refinement(truth.costs(), 1000, 1);
  drive(refinement, noisy(truth, 0.01, 1));
  EXPECT_THAT(refinement.finalists().size(), Le(static_cast<std::size_t>(kMaximumFinalists)));
  for (const ReferencePlan& reference : reference_plans())
    EXPECT_TRUE(contains(refinement.finalists(), reference.plan)) << reference.name;
}

TEST(PlanRefinement, StoppedEarlyItUsesWhatItKnows) {
  const Truth truth(3);
  PlanRefinement refinement(truth.costs(), kFinalists, 3);
  // Nothing timed: the same as by the sums alone.
  const auto by_sum = select_finalists(truth.costs(), kFinalists);
  const auto before = refinement.finalists();
  ASSERT_EQ(before.size(), by_sum.size());
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_EQ(before[i].plan, by_sum[i].plan);
  EXPECT_THAT(before, Each(Field(&Finalist::basis, Basis::sum)));
  EXPECT_EQ(refinement.predicted(), 0);
  // Some timed, the round not over.
  for (const PlanCandidate& one : refinement.ask(15))
    refinement.tell(one.plan, {true, truth.whole_us(one.plan)});
  const auto after = refinement.finalists();
  EXPECT_LT(truth.regret(after), truth.regret(by_sum));
  for (std::size_t i = 1; i < kFinalists; ++i)
    EXPECT_THAT(after[i].expected_us, Ge(after[i - 1].expected_us));
  for (const Finalist& one : after) {
    EXPECT_NE(one.basis, Basis::sum);
    EXPECT_DOUBLE_EQ(one.sum_us, plan::plan_cost(one.plan, truth.costs()));
    EXPECT_NEAR(one.expected_us / truth.whole_us(one.plan), 1, 0.03);
  }
}

TEST(PlanRefinement, FailedPlansArePredictedAndNotAskedForAgain) {
  const Truth truth(4);
  PlanRefinement refinement(truth.costs(), kFinalists, 4);
  const auto asked = drive(refinement, [&](const FusionPlan& plan) {
    return plan.kernel_count() % 2 == 0 ? Trial{true, truth.whole_us(plan)} : Trial{};
  });
  EXPECT_EQ(std::set<FusionPlan>(asked.begin(), asked.end()).size(), asked.size());
  EXPECT_LT(refinement.timed(), static_cast<std::int64_t>(asked.size()));
  EXPECT_LT(truth.regret(refinement.finalists()), 0.01);

  PlanRefinement nothing(truth.costs(), kFinalists, 4);
  EXPECT_EQ(drive(nothing, [](const FusionPlan&) { return Trial{}; }).size(), 16u);
  EXPECT_THAT(nothing.finalists(), Each(Field(&Finalist::basis, Basis::sum)));
  for (const double broken : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    PlanRefinement one(truth.costs(), kFinalists, 4);
    drive(one, [&](const FusionPlan&) { return Trial{true, broken}; });
    EXPECT_EQ(one.timed(), 0) << broken;
  }
}

TEST(PlanRefinement, WorksInASmallSpaceAndInNone) {
  plan::VariantCosts costs;
  costs.fill(std::numeric_limits<double>::infinity());
  PlanRefinement none(costs, kFinalists, 1);
  EXPECT_TRUE(none.ask(8).empty());
  EXPECT_TRUE(none.finalists().empty());
  EXPECT_EQ(none.expected(), 0);
  for (const plan::SegmentVariant& variant : FusionPlan::unfused().variants())
    costs[static_cast<std::size_t>(plan::variant_index(variant))] = 3;
  PlanRefinement single(costs, kFinalists, 1);
  const auto asked = drive(single, [](const FusionPlan&) { return Trial{true, 50}; });
  EXPECT_EQ(asked, std::vector<FusionPlan>{FusionPlan::unfused()});
  ASSERT_EQ(single.finalists().size(), 1u);
  EXPECT_EQ(single.finalists().front().basis, Basis::whole);
  EXPECT_EQ(single.finalists().front().sum_us, 45);
  EXPECT_THROW(single.tell(FusionPlan::all_fused(), {true, 1}), base::InternalError);
}

}  // namespace
}  // namespace fusetune::search
