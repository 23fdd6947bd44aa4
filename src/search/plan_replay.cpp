#include "search/plan_replay.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace fusetune::search {

PlanReplay::PlanReplay(std::span<const TimedPlan> recorded)
    : best_us_(std::numeric_limits<double>::infinity()) {
  for (const TimedPlan& one : recorded) {
    if (!std::isfinite(one.time_us) || one.time_us <= 0)
      throw base::InternalError("a recorded time must be finite and above 0: " + one.plan.to_string());
    const auto [place, is_new] = times_.try_emplace(one.plan, one.time_us);
    if (!is_new) place->second = std::min(place->second, one.time_us);
    best_us_ = std::min(best_us_, one.time_us);
  }
  for (const auto& [plan, time] : times_) plans_.push_back(plan);
}

Trial PlanReplay::measure(const plan::FusionPlan& plan) const {
  const auto found = times_.find(plan);
  return found == times_.end() ? Trial{} : Trial{true, found->second};
}

void PlanReplayResult::tell(const plan::FusionPlan& plan, const Trial& trial, double spent) {
  if (!trial.ok || trial.time_us >= best_us) return;
  best = plan;
  best_us = trial.time_us;
  improvements.push_back({spent, plan, trial.time_us});
}

PlanReplayResult replay_plans(PlanStrategy& strategy, const PlanReplay& replay, std::int64_t trials) {
  constexpr std::int64_t kBatch = 32;  // as many as a search compiles together
  PlanReplayResult result;
  result.best_us = std::numeric_limits<double>::infinity();
  while (result.trials < trials) {
    const auto asked = strategy.ask(static_cast<int>(std::min(kBatch, trials - result.trials)));
    if (asked.empty()) break;
    for (const PlanCandidate& candidate : asked) {
      const Trial trial = replay.measure(candidate.plan);
      ++result.trials;
      result.tell(candidate.plan, trial, static_cast<double>(result.trials));
      strategy.tell(candidate.plan, trial);
    }
  }
  if (result.trials == 0) throw base::InternalError("the strategy asked for no plan");
  result.regret = result.best_us / replay.best_us() - 1;
  return result;
}

}  // namespace fusetune::search
