#include "search/space.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace fusetune::search {

Space segment_space(const block::Problem& problem, const lower::CpuTarget& target) {
  return {[problem, target](int variant, const GemmTile& tile) {
    lower::CpuTarget tuned = target;
    tuned.tile_rows = tile.rows;
    tuned.tile_columns = tile.columns;
    tuned.k_chunk = tile.k_chunk;
    return lower::schedule_space(plan::all_variants()[static_cast<std::size_t>(variant)], problem, tuned);
  }};
}

bool Incumbents::tell(const Candidate& candidate, const Trial& trial) {
  if (!trial.ok || !std::isfinite(trial.time_us) || trial.time_us <= 0) return false;
  std::optional<Best>& best = best_[static_cast<std::size_t>(candidate.variant)];
  const bool better = !best || trial.time_us < best->time_us ||
                      (trial.time_us == best->time_us && candidate.schedule < best->schedule);
  if (better) best = Best{candidate.schedule, trial.time_us};
  return better;
}

int Incumbents::count() const {
  return static_cast<int>(
      std::count_if(best_.begin(), best_.end(), [](const auto& best) { return best.has_value(); }));
}

plan::VariantCosts Incumbents::costs() const {
  plan::VariantCosts costs;
  std::transform(best_.begin(), best_.end(), costs.begin(), [](const std::optional<Best>& best) {
    return best ? best->time_us : std::numeric_limits<double>::infinity();
  });
  return costs;
}

double Incumbents::best_sum_us() const {
  const auto cheapest = plan::cheapest_plans(costs(), 1);
  return cheapest.empty() ? std::numeric_limits<double>::infinity() : cheapest.front().cost;
}

}  // namespace fusetune::search
