#include "search/strategy.h"

#include <string>

#include "base/error.h"
#include "base/text.h"
#include "search/exhaustive.h"

namespace fusetune::search {

std::span<const StrategyInfo> strategies() {
  static constexpr StrategyInfo kStrategies[] = {
      {"exhaustive", "every segment variant with every schedule worth timing",
       [](const Space& space, std::uint64_t seed) -> std::unique_ptr<Strategy> {
         return std::make_unique<Exhaustive>(space, seed);
       }},
      {"guided", "schedules ranked and pruned by a cost model", nullptr},
      {"random", "uniform sampling", nullptr},
      {"anneal", "simulated annealing over the mask's bits", nullptr},
      {"mask", "whole plans of sampled masks, fitted, pruned by class, repeated", nullptr},
  };
  return kStrategies;
}

std::unique_ptr<Strategy> make_strategy(std::string_view name, const Space& space, std::uint64_t seed) {
  std::vector<std::string_view> names;
  for (const StrategyInfo& row : strategies()) {
    if (row.name == name && row.make != nullptr) return row.make(space, seed);
    if (row.name == name) {
      throw base::UsageError("--strategy " + std::string(name) +
                             ": a later version of fusetune brings this strategy; this one has `exhaustive`");
    }
    names.push_back(row.name);
  }
  const std::string near = base::nearest(name, names);
  throw base::UsageError("--strategy " + std::string(name) + ": no such strategy" +
                         (near.empty() ? "" : "; did you mean `" + near + "`?") +
                         "; this version has `exhaustive`");
}

}  // namespace fusetune::search
