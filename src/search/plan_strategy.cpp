#include "search/plan_strategy.h"

#include <algorithm>

#include "search/anneal.h"
#include "search/bayesian.h"
#include "search/mask.h"
#include "search/random.h"

namespace fusetune::search {
namespace {

template <class Kind>
std::unique_ptr<PlanStrategy> make(const PlanSpace& space, std::uint64_t seed) {
  return std::make_unique<Kind>(space, seed);
}

}  // namespace

std::span<const PlanStrategyInfo> plan_strategies() {
  static constexpr PlanStrategyInfo kStrategies[] = {
      {"mask", "whole plans of sampled masks; a model fitted, plans pruned by class, repeated", true,
       make<MaskPipeline>},
      {"bayesian", "whole plans, those with the largest expected improvement by a Gaussian process", false,
       make<BayesianPlans>},
      {"random", "whole plans in random order", false, make<RandomPlans>},
      {"anneal", "whole plans, simulated annealing over the mask's bits", false, make<Anneal>},
  };
  return kStrategies;
}

const PlanStrategyInfo* find_plan_strategy(std::string_view name) {
  const auto rows = plan_strategies();
  const auto found =
      std::find_if(rows.begin(), rows.end(), [&](const auto& row) { return row.name == name; });
  return found == rows.end() ? nullptr : &*found;
}

}  // namespace fusetune::search
