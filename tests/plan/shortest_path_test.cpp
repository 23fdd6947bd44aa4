#include "plan/shortest_path.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <tuple>

#include "base/error.h"

namespace fusetune::plan {
namespace {

/// Random tables of each kind; each is compared with every plan, which takes a sanitized program half a
/// second.
#ifdef __SANITIZE_ADDRESS__
constexpr unsigned kTables = 4;
#else
constexpr unsigned kTables = 20;
#endif

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// All plans with a finite cost, ranked by the definition.
std::vector<RankedPlan> brute_force(const VariantCosts& costs) {
  std::vector<RankedPlan> ranked;
  for (const FusionPlan& plan : all_plans())
    if (const double cost = plan_cost(plan, costs); std::isfinite(cost)) ranked.push_back({plan, cost});
  std::sort(ranked.begin(), ranked.end(), [](const RankedPlan& a, const RankedPlan& b) {
    return std::tuple(a.cost, a.plan.kernel_count(), a.plan.canonical_mask().value) <
           std::tuple(b.cost, b.plan.kernel_count(), b.plan.canonical_mask().value);
  });
  return ranked;
}

void expect_exact(const VariantCosts& costs, const std::vector<int>& counts) {
  const std::vector<RankedPlan> all = brute_force(costs);
  for (const int k : counts) {
    const std::vector<RankedPlan> found = cheapest_plans(costs, k);
    ASSERT_EQ(found.size(), std::min(all.size(), static_cast<std::size_t>(k)));
    for (std::size_t i = 0; i < found.size(); ++i) {
      ASSERT_EQ(found[i].plan, all[i].plan)
          << "rank " << i << ": " << found[i].plan.to_string() << " instead of " << all[i].plan.to_string();
      ASSERT_EQ(found[i].cost, all[i].cost) << "rank " << i;
    }
    if (!all.empty() && all[0].cost > 0) {
      ASSERT_EQ(found[0].cost / all[0].cost, 1.0);
    }
  }
}

template <typename Draw>
VariantCosts table(Draw draw) {
  VariantCosts costs;
  for (double& cost : costs) cost = draw();
  return costs;
}

TEST(CheapestPlans, RandomTables) {
  for (unsigned seed = 0; seed < kTables; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<double> uniform(1, 100);
    const VariantCosts costs = table([&] { return uniform(random); });
    expect_exact(costs, {1, 2, 8, 64});
  }
}

/// Segments that cost about as much as their parts, as real ones do: many plans are close.
TEST(CheapestPlans, NearlyAdditiveTables) {
  for (unsigned seed = 0; seed < kTables / 2; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<double> gain(0.97, 1.03);
    VariantCosts costs;
    for (int i = 0; i < kVariantCount; ++i)
      costs[static_cast<std::size_t>(i)] = all_variants()[i].segment.size() * 37.0 * gain(random);
    expect_exact(costs, {1, 16, 200});
  }
}

TEST(CheapestPlans, SmallIntegersTieOften) {
  for (unsigned seed = 0; seed < kTables; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    std::uniform_int_distribution<int> few(0, 3);
    const VariantCosts costs = table([&] { return few(random); });
    expect_exact(costs, {1, 5, 50});
  }
}

/// Costs of very different size: prefixes that differ tie in the rounded total.
TEST(CheapestPlans, RoundingTies) {
  for (unsigned seed = 0; seed < kTables; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    std::uniform_int_distribution<int> exponent(-40, 40);
    const VariantCosts costs = table([&] { return std::ldexp(1.0, exponent(random)); });
    expect_exact(costs, {1, 7, 100});
  }
}

TEST(CheapestPlans, UnavailableVariants) {
  for (unsigned seed = 0; seed < kTables; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<double> uniform(0, 1);
    const VariantCosts costs = table([&] { return uniform(random) < 0.6 ? kInfinity : uniform(random); });
    expect_exact(costs, {1, 10, 2000});
  }
}

TEST(CheapestPlans, EveryPlanOnceWhenAllAreAsked) {
  const VariantCosts zeros{};
  expect_exact(zeros, {1, kPlanCount, kPlanCount + 1});
  EXPECT_EQ(cheapest_plans(zeros, 1).front().plan, FusionPlan::all_fused())
      << "fewest kernels, then smallest mask";
}

TEST(CheapestPlans, TheTwoVariantsOfACoreSegmentAreDifferentPlans) {
  VariantCosts costs;
  costs.fill(kInfinity);
  costs[static_cast<std::size_t>(variant_index({{0, 14}, false}))] = 2;
  costs[static_cast<std::size_t>(variant_index({{0, 14}, true}))] = 1;
  const std::vector<RankedPlan> plans = cheapest_plans(costs, 5);
  ASSERT_EQ(plans.size(), 2u);
  EXPECT_EQ(plans[0].plan.to_string(), "[0-14]*");
  EXPECT_EQ(plans[1].plan.to_string(), "[0-14]");
}

TEST(CheapestPlans, NothingAvailableOrAsked) {
  VariantCosts costs;
  costs.fill(kInfinity);
  EXPECT_TRUE(cheapest_plans(costs, 3).empty());
  costs.fill(1);
  EXPECT_TRUE(cheapest_plans(costs, 0).empty());
}

TEST(CheapestPlans, RefusesCostsThatAreNoCosts) {
  VariantCosts costs{};
  costs[5] = std::nan("");
  EXPECT_THROW(cheapest_plans(costs, 1), base::InternalError);
  costs[5] = -1;
  EXPECT_THROW(cheapest_plans(costs, 1), base::InternalError);
}

TEST(PathCosts, AreTheCheapestWaysToAndFromEveryNode) {
  VariantCosts costs;
  for (std::size_t i = 0; i < costs.size(); ++i) costs[i] = 1 + static_cast<double>((i * 37) % 23);
  const PathCosts paths(costs);
  EXPECT_EQ(paths.to(0), 0);
  EXPECT_EQ(paths.from(15), 0);
  const double best = cheapest_plans(costs, 1).front().cost;
  EXPECT_DOUBLE_EQ(paths.to(15), best);
  EXPECT_DOUBLE_EQ(paths.from(0), best);
  // Every plan has its node at each of its borders, and the best one's halves are the cheapest.
  for (const FusionPlan& plan : all_plans()) {
    double before = 0;
    for (const SegmentVariant& variant : plan.variants()) {
      ASSERT_LE(paths.to(variant.segment.first), before + 1e-9);
      ASSERT_LE(paths.from(variant.segment.first), plan_cost(plan, costs) - before + 1e-9);
      before += costs[static_cast<std::size_t>(variant_index(variant))];
    }
  }
  costs.fill(std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isinf(PathCosts(costs).to(15)));
}

}  // namespace
}  // namespace fusetune::plan
