#include "cli/strategy_comparison.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/tie_band.h"
#include "search/plan_model.h"
#include "search/plan_refinement.h"

namespace fusetune::cli {
namespace {

constexpr const char* kGuided = "guided";
constexpr double kNotKnown = std::numeric_limits<double>::quiet_NaN();

/// What all searches replay.
struct Recorded {
  search::PlanReplay plans;
  search::Replay kernels;
  const RecordedKernels* about;  // the kernels; null: there are none
};

model::TrainOptions seeded(std::uint64_t seed) {
  model::TrainOptions options;
  options.seed = seed;
  return options;
}

ReplayedStrategy search_plans(const search::PlanStrategyInfo& strategy, const Recorded& recorded,
                              std::int64_t trials, std::uint64_t seed, const ComparisonOptions& options) {
  search::FittedPlanModel model(options.problem, seeded(seed));
  const search::PlanSpace space{recorded.plans.plans(), trials, strategy.needs_model ? &model : nullptr};
  auto found = search::replay_plans(*strategy.make(space, seed), recorded.plans, trials);
  return {.strategy = {},
          .trials = {},
          .plans = found.trials,
          .spent = static_cast<double>(found.trials),
          .regret = found.regret,
          .improvements = std::move(found.improvements)};
}

/// Empty without kernels.
search::Replay kernel_replay(const RecordedKernels* kernels, const ComparisonOptions& options) {
  if (kernels == nullptr) return search::Replay(std::vector<search::Recording>{});
  const lower::Target& target = kernels->device.target;
  return search::Replay(kernels->recordings, target,
                        options.problem ? search::segment_space(*options.problem, target).work : nullptr);
}

ReplayedStrategy search_guided(const Recorded& recorded, std::optional<std::int64_t> trials,
                               std::uint64_t seed, const ComparisonOptions& options) {
  search::GuidedReplayOptions guided{.kernel_cost = recorded.about->cost.kernel_trials(), .seed = seed};
  if (trials) guided.budget = static_cast<double>(*trials);
  if (!options.problem) throw base::InternalError("guided is replayed on kernels of no problem");
  search::FittedSegmentModel model(*options.problem, recorded.about->device, seed);
  guided.model = &model;
  guided.priors = options.priors;
  auto found = search::replay_guided(recorded.kernels, recorded.plans, guided);
  return {.strategy = {},
          .trials = {},
          .kernels = found.kernels,
          .plans = found.plans.trials,
          .by_prior = found.by_prior,
          .spent = found.spent,
          .regret = found.plans.regret,
          .improvements = std::move(found.plans.improvements)};
}

ReplayedStrategy search_once(const std::string& name, const Recorded& recorded,
                             std::optional<std::int64_t> trials, int number,
                             const ComparisonOptions& options) {
  const std::uint64_t seed = options.seed + static_cast<std::uint64_t>(number) - 1;
  const std::string_view plans = name == kGuided ? search::kSmallBudgetStrategy : std::string_view(name);
  ReplayedStrategy search =
      name == kGuided && (!trials || search::pays_for_segments(static_cast<double>(*trials),
                                                               recorded.about->cost.kernel_trials()))
          ? search_guided(recorded, trials, seed, options)
          : search_plans(*search::find_plan_strategy(plans), recorded, trials.value(), seed, options);
  search.strategy = name;
  search.trials = trials;
  search.number = number;
  return search;
}

/// Searches that differ in their seeds only.
using Alike = std::span<const ReplayedStrategy>;

/// In the order that they are in.
std::vector<Alike> groups_of(const StrategyComparison& comparison) {
  const std::vector<ReplayedStrategy>& all = comparison.searches;
  std::vector<Alike> groups;
  for (std::size_t begin = 0, end = 0; begin < all.size(); begin = end) {
    while (end < all.size() && all[end].strategy == all[begin].strategy &&
           all[end].trials == all[begin].trials)
      ++end;
    groups.push_back(Alike(all).subspan(begin, end - begin));
  }
  return groups;
}

template <typename Value>
double mean(Alike searches, Value value) {
  double sum = 0;
  for (const ReplayedStrategy& search : searches) sum += static_cast<double>(value(search));
  return sum / static_cast<double>(searches.size());
}

/// +infinity where a search has no plan.
double worst_regret(Alike searches) {
  double worst = 0;
  for (const ReplayedStrategy& search : searches) worst = std::max(worst, search.regret);
  return worst;
}

/// The most trials that a search was given.
std::int64_t most_trials(const StrategyComparison& comparison) {
  std::int64_t most = 0;
  for (const ReplayedStrategy& search : comparison.searches) most = std::max(most, search.trials.value_or(0));
  return most;
}

/// Those searches that had as many.
std::vector<Alike> longest_searches(const StrategyComparison& comparison) {
  std::vector<Alike> groups = groups_of(comparison);
  const std::int64_t most = most_trials(comparison);
  std::erase_if(groups, [&](const Alike& group) { return group.front().trials != most; });
  return groups;
}

const search::Improvement* last_within(const ReplayedStrategy& search, double trials) {
  const search::Improvement* last = nullptr;
  for (const search::Improvement& one : search.improvements)
    if (one.spent <= trials) last = &one;
  return last;
}

/// After `trials`; NaN where not all searches have a plan yet.
report::RegretCurve::Point point_of(Alike searches, std::int64_t trials, double best_us) {
  report::RegretCurve::Point point{0, std::numeric_limits<double>::infinity(), 0};
  for (const ReplayedStrategy& search : searches) {
    const double regret = search.regret_after(static_cast<double>(trials), best_us);
    if (std::isnan(regret)) return {kNotKnown, kNotKnown, kNotKnown};
    point.mean += regret / static_cast<double>(searches.size());
    point.least = std::min(point.least, regret);
    point.most = std::max(point.most, regret);
  }
  return point;
}

}  // namespace

std::vector<std::string> comparable_strategies() {
  std::vector<std::string> names;
  for (const search::PlanStrategyInfo& row : search::plan_strategies()) names.emplace_back(row.name);
  names.emplace_back(kGuided);
  return names;
}

double ReplayedStrategy::regret_after(double trials_spent, double recorded_best_us) const {
  const search::Improvement* const last = last_within(*this, trials_spent);
  return last == nullptr ? kNotKnown : last->time_us / recorded_best_us - 1;
}

StrategyComparison compare_strategies(std::span<const search::TimedPlan> recorded,
                                      const RecordedKernels* kernels, const ComparisonOptions& options) {
  const Recorded all{search::PlanReplay(recorded), kernel_replay(kernels, options), kernels};
  StrategyComparison comparison{
      .searches = {}, .recorded = all.plans.plans().size(), .best_us = all.plans.best_us()};
  for (const std::string& name : options.strategies) {
    if (name == kGuided && kernels == nullptr)
      throw base::InternalError("guided is to be replayed without kernels");
    std::vector<std::optional<std::int64_t>> budgets(options.trials.begin(), options.trials.end());
    // The others' own end is that they have timed everything.
    if (name == kGuided) budgets.emplace_back(std::nullopt);
    for (const std::optional<std::int64_t>& trials : budgets)
      for (int number = 1; number <= options.repeats; ++number)
        comparison.searches.push_back(search_once(name, all, trials, number, options));
  }
  return comparison;
}

report::Table budget_table(const StrategyComparison& comparison, const RecordedKernels* kernels) {
  report::Table table({{"strategy", "strategy"},
                       {"trials", "trials"},
                       {"mean_regret_percent", "mean regret %", 2},
                       {"worst_regret_percent", "worst regret %", 2},
                       {"searches", "searches"},
                       {"found_best", "found the best"},
                       {"mean_timed", "plans timed", 1},
                       {"mean_kernels", "kernels timed", 1},
                       {"mean_spent", "trials spent", 1},
                       {"mean_spent_s", "seconds", 1},
                       {"by_prior", "by a prior"}});
  for (const Alike& group : groups_of(comparison)) {
    const auto& trials = group.front().trials;
    const double spent = mean(group, [](const auto& search) { return search.spent; });
    table.add(
        {group.front().strategy, trials ? report::Cell(*trials) : std::monostate(),
         100 * mean(group, [](const auto& search) { return search.regret; }), 100 * worst_regret(group),
         static_cast<std::int64_t>(group.size()),
         std::count_if(group.begin(), group.end(),
                       [](const auto& search) { return search.regret <= base::kTieBand; }),
         mean(group, [](const auto& search) { return search.plans; }),
         mean(group, [](const auto& search) { return search.kernels; }), spent,
         kernels == nullptr ? report::Cell() : spent * kernels->cost.plan_s,
         std::count_if(group.begin(), group.end(), [](const auto& search) { return search.by_prior; })});
  }
  return table;
}

report::Table curve_table(const StrategyComparison& comparison, const std::string& time_key) {
  report::Table table({{"strategy", "strategy"},
                       {"search", "search"},
                       {"trials", "trials"},
                       {"mask", "mask"},
                       {time_key, time_key},
                       {"regret_percent", "regret %", 2}});
  const std::int64_t most = most_trials(comparison);
  for (const Alike& group : longest_searches(comparison))
    for (const ReplayedStrategy& search : group)
      for (std::int64_t trials = 1; trials <= most; ++trials) {
        std::vector<report::Cell> row = {search.strategy, search.number, trials};
        if (const auto* const last = last_within(search, static_cast<double>(trials))) {
          row.insert(row.end(), {std::int64_t{last->plan.canonical_mask().value}, last->time_us,
                                 100 * (last->time_us / comparison.best_us - 1)});
        } else {
          row.resize(6);  // it has timed no plan yet
        }
        table.add(std::move(row));
      }
  return table;
}

std::vector<report::RegretCurve> regret_curves(const StrategyComparison& comparison) {
  std::vector<report::RegretCurve> curves;
  for (const Alike& group : longest_searches(comparison)) {
    curves.push_back({group.front().strategy, {}});
    for (std::int64_t trials = 1; trials <= most_trials(comparison); ++trials)
      curves.back().points.push_back(point_of(group, trials, comparison.best_us));
  }
  return curves;
}

report::Table short_curve_table(std::span<const report::RegretCurve> curves) {
  std::vector<report::Column> columns = {{"trials", "trials"}};
  for (const report::RegretCurve& curve : curves) columns.push_back({curve.name, curve.name, 2});
  report::Table table(std::move(columns));
  const std::size_t count = curves.empty() ? 0 : curves.front().points.size();
  for (std::size_t trials = 1; trials <= count; trials *= 2) {
    std::vector<report::Cell> row = {static_cast<std::int64_t>(trials)};
    for (const report::RegretCurve& curve : curves) row.emplace_back(100 * curve.points[trials - 1].mean);
    table.add(std::move(row));
  }
  return table;
}

}  // namespace fusetune::cli
