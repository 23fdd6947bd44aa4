// Strategies over whole plans against each other, on recorded times: no device.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "block/problem.h"
#include "report/table.h"
#include "search/plan_strategy.h"

namespace fusetune::cli {

struct ComparisonOptions {
  std::vector<std::int64_t> trials = {16, 32, 64, 128};  // plans that a search may time
  int repeats = 5;                                       // searches of each kind, with seeds of their own
  std::uint64_t seed = 0;
  std::optional<block::Problem> problem;  // of the times; without one models know plans by their bits alone
};

/// One row a strategy and number of trials: mean and worst regret against the fastest recorded plan, and the
/// plans timed in the mean (a strategy may be done before its trials are). A recording's noise favours
/// nobody, but the fastest record may be fast by luck: regrets below the noise mean nothing.
report::Table compare_strategies(std::span<const search::TimedPlan> recorded,
                                 const ComparisonOptions& options);

}  // namespace fusetune::cli
