#include "search/strategy.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"
#include "search/exhaustive.h"
#include "search/guided.h"

namespace fusetune::search {

std::span<const StrategyInfo> strategies() {
  static constexpr StrategyInfo kStrategies[] = {
      {"exhaustive", "every segment variant with every schedule worth timing", false, false,
       [](const Space& space, SegmentModel* /*model*/, std::uint64_t seed, const Closing& /*closing*/,
          Priors /*priors*/) -> std::unique_ptr<Strategy> {
         return std::make_unique<Exhaustive>(space, seed);
       }},
      {"guided",
       "the kernels that those timed before expect in good plans, then plans timed whole and all others "
       "predicted from them",
       true, true,
       [](const Space& space, SegmentModel* model, std::uint64_t seed, const Closing& closing,
          Priors priors) -> std::unique_ptr<Strategy> {
         return std::make_unique<Guided>(space, model, seed, closing, std::move(priors));
       }},
  };
  return kStrategies;
}

const StrategyInfo* find_strategy(std::string_view name) {
  const auto rows = strategies();
  const auto found =
      std::find_if(rows.begin(), rows.end(), [&](const auto& row) { return row.name == name; });
  return found == rows.end() ? nullptr : &*found;
}

bool takes_priors(std::string_view name) {
  const StrategyInfo* const row = find_strategy(name);
  return row != nullptr && row->takes_priors;
}

std::unique_ptr<Strategy> make_strategy(std::string_view name, const Space& space, std::uint64_t seed,
                                        SegmentModel* model, const Closing& closing, Priors priors) {
  const StrategyInfo* const row = find_strategy(name);
  if (row == nullptr)
    throw base::InternalError("no strategy over segments has the name " + std::string(name));
  return row->make(space, model, seed, closing, std::move(priors));
}

}  // namespace fusetune::search
