// Strategies against each other on recorded times: no device.
//
// A budget is a number of whole plans timed. What kernels take `guided` is charged as the share of a plan's
// trial that measuring one takes. Each number of trials is searches of its own, as a strategy may divide what
// it has; each of them is repeated with other seeds.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "block/problem.h"
#include "cli/measuring_cost.h"
#include "report/strategy_page.h"
#include "report/table.h"
#include "search/guided_replay.h"

namespace fusetune::cli {

/// What `guided` needs beside plans.
struct RecordedKernels {
  std::vector<search::Recording> recordings;
  model::Device device;
  MeasuringCost cost;
};

/// The names that --strategies takes: those over whole plans, and `guided`.
std::vector<std::string> comparable_strategies();

struct ComparisonOptions {
  std::vector<std::string> strategies;                   // some of comparable_strategies()
  std::vector<std::int64_t> trials = {16, 32, 64, 128};  // plans that a search may time
  int repeats = 5;                                       // searches of each kind, with seeds of their own
  std::uint64_t seed = 0;
  std::optional<block::Problem> problem = {};  // of the times; without one models know plans by bits alone
  search::Priors priors = {};                  // that `guided` begins with
};

/// One search and what it had found when.
struct ReplayedStrategy {
  std::string strategy;
  std::optional<std::int64_t> trials;  // that it might spend; nullopt: it ran to its own end
  int number = 0;                      // from 1, of those alike
  std::int64_t kernels = 0, plans = 0;
  bool by_prior = false;  // it trusted one of the priors
  double spent = 0;       // in trials: a plan is one, a kernel its share
  double regret = 0;      // of its best plan; not finite: it timed none
  std::vector<search::Improvement> improvements;

  /// Regret of the best plan after `trials`; NaN before the first one.
  double regret_after(double trials, double recorded_best_us) const;
};

struct StrategyComparison {
  std::vector<ReplayedStrategy> searches;  // by strategy, trials (its own end last) and number
  std::size_t recorded = 0;                // plans
  double best_us = 0;                      // the fastest of them
};

/// `kernels`: where `guided` is among the strategies, which then also runs once more to its own end.
StrategyComparison compare_strategies(std::span<const search::TimedPlan> recorded,
                                      const RecordedKernels* kernels, const ComparisonOptions& options);

/// One row a strategy and number of trials: mean and worst regret against the fastest recorded plan, searches
/// that found a plan tied with it, and in the mean: plans timed, kernels timed, trials spent, their seconds;
/// last, how many searches trusted a prior.
/// A recording's noise favours nobody, but the fastest record may be fast by luck: regrets below the noise
/// mean nothing.
report::Table budget_table(const StrategyComparison& comparison, const RecordedKernels* kernels);

/// Best so far after each trial, of every search with the most trials. `time_key`: of the best time's column.
report::Table curve_table(const StrategyComparison& comparison, const std::string& time_key);

/// The same over all searches of a strategy: mean, least and most.
std::vector<report::RegretCurve> regret_curves(const StrategyComparison& comparison);

/// For people: mean regrets after 1, 2, 4, ... trials, a column each strategy.
report::Table short_curve_table(std::span<const report::RegretCurve> curves);

}  // namespace fusetune::cli
