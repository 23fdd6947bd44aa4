#include "cli/replayed_search.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "cli/comparable_times.h"
#include "cli/output.h"
#include "cli/prior_report.h"
#include "cli/recorded_file.h"
#include "cli/recorded_segments.h"
#include "search/plan_model.h"
#include "search/plan_replay.h"
#include "search/replay.h"
#include "search/segment_model.h"
#include "store/tuning_store.h"

namespace fusetune::cli {
namespace {

/// What the file has of the problem, all of one environment.
store::Contents read_recorded(const ReplayRequest& request) {
  const RecordedFile recorded(request.file);
  const store::TuningStore store(recorded.database(), {.access = store::Access::look});
  store::Contents contents =
      store.contents({.problem = request.problem.key(), .environment = {}, .cache_mode = request.cache_mode});
  if (!contents.environments.empty())
    choose_environment(contents.environments, "", "--replay " + request.file,
                       "`db export --environment START` makes a file of one");
  return contents;
}

[[noreturn]] void fail_empty(const ReplayRequest& request, const char* what) {
  throw base::UsageError(fmt::format("--replay {}: it has no {} of this problem with a time in cache mode {}",
                                     request.file, what, request.cache_mode));
}

model::TrainOptions seeded(const block::Problem& problem) {
  model::TrainOptions options;
  options.seed = problem.seed;
  return options;
}

double least_of_all_plans(const plan::VariantCosts& costs) {
  double least = std::numeric_limits<double>::infinity();
  for (const plan::FusionPlan& plan : plan::all_plans())
    least = std::min(least, plan::plan_cost(plan, costs));
  return least;
}

ReplayedSearch replay_segments(const ReplayRequest& request) {
  const store::Contents contents = read_recorded(request);
  const std::vector<search::Recording> recordings = recorded_segments(contents, request.file);
  const search::Incumbents best = best_recorded(recordings, lower::CpuTarget());
  ReplayedSearch result;
  result.recorded = static_cast<std::int64_t>(recordings.size());
  result.recorded_best_us = best.best_sum_us();
  if (std::isinf(result.recorded_best_us)) fail_empty(request, "segments that make a plan,");
  result.brute_force_us = least_of_all_plans(best.costs());
  result.environment = describe(contents.environments.front());
  const store::EnvironmentRecord& here = contents.environments.front();
  const model::Device device = device_of(here.fields);
  const search::Replay replay(recordings, device.target,
                              search::segment_space(request.problem, device.target).work);
  search::FittedSegmentModel model(request.problem, device, request.problem.seed);
  const auto strategy = search::make_strategy(request.strategy, replay.space(), request.problem.seed, &model,
                                              {}, request.priors ? request.priors(here) : search::Priors());
  const search::ReplayResult found = search::replay_search(*strategy, replay, request.stop);
  result.trials = found.trials;
  result.stopped = found.stopped;
  const auto tests = strategy->prior_tests();
  result.prior_tests.assign(tests.begin(), tests.end());
  const auto cheapest = plan::cheapest_plans(found.best.costs(), 1);
  if (cheapest.empty())
    throw base::UsageError(
        fmt::format("--replay: after {} trials no plan has a time for each of its segments", found.trials));
  result.mask = cheapest.front().plan.canonical_mask().value;
  result.best_us = cheapest.front().cost;
  return result;
}

ReplayedSearch replay_whole_plans(const ReplayRequest& request, const search::PlanStrategyInfo& info) {
  if (request.stop.seconds || request.stop.early_stop)
    throw base::UsageError("--replay: strategy " + request.strategy + " is stopped by --trials only");
  const store::Contents contents = read_recorded(request);
  std::vector<search::TimedPlan> recorded;
  for (const store::PlanRecord& record : usable_times(contents.plans, request.file)) {
    recorded.push_back({plan::FusionPlan::from_mask({record.mask}), record.measurement.time.median_us,
                        record.sampled == store::Sampled::uniform});
  }
  if (recorded.empty()) fail_empty(request, "whole plans");
  const search::PlanReplay replay(recorded);
  const auto all = static_cast<std::int64_t>(replay.plans().size());
  const std::int64_t trials = std::min(request.stop.trials.value_or(all), all);
  search::FittedPlanModel model(request.problem, seeded(request.problem));
  const search::PlanSpace space{replay.plans(), trials, info.needs_model ? &model : nullptr};
  const auto found = search::replay_plans(*info.make(space, request.problem.seed), replay, trials);
  ReplayedSearch result;
  result.recorded = all;
  result.environment = describe(contents.environments.front());
  result.trials = found.trials;
  if (found.trials >= trials && trials < all) result.stopped = fmt::format("--trials {} reached", trials);
  result.mask = found.best.canonical_mask().value;
  result.best_us = found.best_us;
  result.recorded_best_us = replay.best_us();
  return result;
}

/// That the shortest path is the best of all plans, seen on these times.
std::string brute_force_line(const ReplayedSearch& found) {
  if (found.brute_force_us == 0) return {};
  return fmt::format("shortest path over brute force through all {} plans, same times: {:.6f}\n",
                     plan::all_plans().size(), found.recorded_best_us / found.brute_force_us);
}

}  // namespace

ReplayedSearch replay_recorded(const ReplayRequest& request) {
  const search::PlanStrategyInfo* const plans = search::find_plan_strategy(request.strategy);
  return plans != nullptr ? replay_whole_plans(request, *plans) : replay_segments(request);
}

void report_replay(const ReplayedSearch& found, const ReplayRequest& request, const std::string& json) {
  const plan::FusionPlan plan = plan::FusionPlan::from_mask({found.mask});
  const bool whole = search::find_plan_strategy(request.strategy) != nullptr;
  const nlohmann::json result = {
      {"replayed", request.file},
      {"strategy", request.strategy},
      {"recorded", found.recorded},
      {"trials", found.trials},
      {"stopped", found.stopped},
      {"mask", found.mask},
      {"plan", plan.to_string()},
      {whole ? "time_us" : "sum_us", found.best_us},
      {"recorded_best_us", found.recorded_best_us},
      {"brute_force_us", found.brute_force_us > 0 ? nlohmann::json(found.brute_force_us) : nlohmann::json()},
      {"prior", priors_json(found.prior_tests)},
      {"regret", found.regret()}};
  const std::string text = result.dump(2) + "\n";
  if (json == "-") return print(text);
  print(fmt::format("{} replayed on {} {} of {}: {} asked for{}{}\n", request.strategy, found.recorded,
                    whole ? "plans" : "kernels", request.file, found.trials,
                    found.stopped.empty() ? "" : ", ", found.stopped));
  print(describe_priors(found.prior_tests));
  print(fmt::format(
      "best plan  mask {}  {}  {:.1f} us {}\n{:.2f} % slower than the best of everything recorded\n",
      found.mask, plan.to_string(), found.best_us, whole ? "whole" : "by the sum of its segments",
      100 * found.regret()));
  print(brute_force_line(found));
  if (!json.empty()) base::write_file_atomic(json, text);
}

}  // namespace fusetune::cli
