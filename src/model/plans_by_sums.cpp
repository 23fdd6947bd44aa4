#include "model/plans_by_sums.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/tie_band.h"
#include "model/metrics.h"
#include "plan/shortest_path.h"

namespace fusetune::model {
namespace {

constexpr double kNotKnown = std::numeric_limits<double>::quiet_NaN();

/// Of each variant.
struct Costs {
  plan::VariantCosts predicted;  // of the kernel predicted fastest
  plan::VariantCosts chosen;     // what that one took
  plan::VariantCosts measured;   // of the kernel that was fastest
};

Costs costs_of(std::span<const int> variants, std::span<const double> predicted,
               std::span<const double> measured) {
  Costs costs;
  costs.predicted.fill(std::numeric_limits<double>::infinity());
  costs.chosen = costs.measured = costs.predicted;
  for (std::size_t i = 0; i < variants.size(); ++i) {
    const auto variant = static_cast<std::size_t>(variants[i]);
    costs.measured[variant] = std::min(costs.measured[variant], measured[i]);
    if (predicted[i] >= costs.predicted[variant]) continue;
    costs.predicted[variant] = predicted[i];
    costs.chosen[variant] = measured[i];
  }
  return costs;
}

double spearman_of_sums(const Costs& costs) {
  std::vector<double> predicted, measured;
  for (const plan::FusionPlan& plan : plan::all_plans()) {
    const double sum = plan::plan_cost(plan, costs.predicted);
    if (!std::isfinite(sum)) continue;
    predicted.push_back(sum);
    measured.push_back(plan::plan_cost(plan, costs.measured));
  }
  return spearman(predicted, measured);
}

}  // namespace

PlansBySums score_plans(std::span<const int> variants, std::span<const double> predicted,
                        std::span<const double> measured, std::size_t top) {
  PlansBySums score{kNotKnown, kNotKnown, false};
  if (std::any_of(variants.begin(), variants.end(), [](int variant) { return variant < 0; })) return score;
  const Costs costs = costs_of(variants, predicted, measured);
  const auto shortest = plan::cheapest_plans(costs.predicted, static_cast<int>(top));
  if (shortest.empty()) return score;
  const double least = plan::cheapest_plans(costs.measured, 1).front().cost;
  const auto loss = [&](const plan::RankedPlan& one) {
    return plan::plan_cost(one.plan, costs.chosen) / least - 1;
  };
  score.path_regret = loss(shortest.front());
  score.spearman = spearman_of_sums(costs);
  score.top_holds_best = std::any_of(shortest.begin(), shortest.end(),
                                     [&](const auto& one) { return loss(one) <= base::kTieBand; });
  return score;
}

}  // namespace fusetune::model
