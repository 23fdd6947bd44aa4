#include "model/path_regret.h"

#include <algorithm>
#include <limits>

#include "plan/shortest_path.h"

namespace fusetune::model {

double path_regret(std::span<const int> variants, std::span<const double> predicted,
                   std::span<const double> measured) {
  plan::VariantCosts expected, chosen, best;
  expected.fill(std::numeric_limits<double>::infinity());
  chosen = best = expected;
  for (std::size_t i = 0; i < variants.size(); ++i) {
    if (variants[i] < 0) return std::numeric_limits<double>::quiet_NaN();
    const auto variant = static_cast<std::size_t>(variants[i]);
    best[variant] = std::min(best[variant], measured[i]);
    if (predicted[i] >= expected[variant]) continue;
    expected[variant] = predicted[i];
    chosen[variant] = measured[i];
  }
  const auto by_prediction = plan::cheapest_plans(expected, 1), by_time = plan::cheapest_plans(best, 1);
  if (by_prediction.empty() || by_time.empty()) return std::numeric_limits<double>::quiet_NaN();
  return plan::plan_cost(by_prediction.front().plan, chosen) / by_time.front().cost - 1;
}

}  // namespace fusetune::model
