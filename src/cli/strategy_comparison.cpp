#include "cli/strategy_comparison.h"

#include <algorithm>

#include "search/plan_model.h"
#include "search/plan_replay.h"

namespace fusetune::cli {
namespace {

struct Outcome {
  double mean_regret = 0, worst_regret = 0, mean_trials = 0;
};

search::PlanReplayResult search_once(const search::PlanStrategyInfo& strategy,
                                     const search::PlanReplay& replay, std::int64_t trials,
                                     std::uint64_t seed, const ComparisonOptions& options) {
  model::TrainOptions fit;
  fit.seed = seed;
  search::FittedPlanModel model(options.problem, fit);
  const search::PlanSpace space{replay.plans(), trials, strategy.needs_model ? &model : nullptr};
  return search::replay_plans(*strategy.make(space, seed), replay, trials);
}

Outcome repeat(const search::PlanStrategyInfo& strategy, const search::PlanReplay& replay,
               std::int64_t trials, const ComparisonOptions& options) {
  Outcome outcome;
  for (int i = 0; i < options.repeats; ++i) {
    const auto result =
        search_once(strategy, replay, trials, options.seed + static_cast<std::uint64_t>(i), options);
    outcome.mean_regret += result.regret / options.repeats;
    outcome.worst_regret = std::max(outcome.worst_regret, result.regret);
    outcome.mean_trials += static_cast<double>(result.trials) / options.repeats;
  }
  return outcome;
}

}  // namespace

report::Table compare_strategies(std::span<const search::TimedPlan> recorded,
                                 const ComparisonOptions& options) {
  const search::PlanReplay replay(recorded);
  report::Table table({{"strategy", "strategy"},
                       {"trials", "trials"},
                       {"mean_regret_percent", "mean regret %", 2},
                       {"worst_regret_percent", "worst regret %", 2},
                       {"mean_timed", "plans timed", 1}});
  for (const search::PlanStrategyInfo& strategy : search::plan_strategies()) {
    for (const std::int64_t trials : options.trials) {
      const Outcome outcome = repeat(strategy, replay, trials, options);
      table.add({std::string(strategy.name), trials, 100 * outcome.mean_regret, 100 * outcome.worst_regret,
                 outcome.mean_trials});
    }
  }
  return table;
}

}  // namespace fusetune::cli
