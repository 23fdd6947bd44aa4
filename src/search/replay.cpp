#include "search/replay.h"

#include <utility>

namespace fusetune::search {

Replay::Replay(std::span<const Recording> recordings, const lower::Target& target,
               std::function<Work(int variant)> work)
    : work_(std::move(work)) {
  for (const Recording& recording : recordings) {
    const Candidate candidate{recording.variant, lower::parse_schedule(recording.schedule, target)};
    const bool first = trials_.insert_or_assign(candidate, recording.trial).second;
    if (first) order_.push_back(candidate);
  }
}

Trial Replay::measure(const Candidate& candidate) const {
  const auto found = trials_.find(candidate);
  return found == trials_.end() ? Trial{} : found->second;
}

Space Replay::space() const {
  const auto schedules = [order = order_](int variant, const GemmTile& tile) {
    std::vector<lower::AnySchedule> recorded;
    for (const Candidate& candidate : order) {
      const lower::AnySchedule& schedule = candidate.schedule;
      const bool same_tile = gemm_tile(schedule) == tile;
      if (candidate.variant == variant && (tile == GemmTile{} || same_tile)) recorded.push_back(schedule);
    }
    return recorded;
  };
  return {schedules, work_};
}

double Replay::seconds() const {
  double sum_us = 0;
  for (const auto& [candidate, trial] : trials_) sum_us += trial.ok ? trial.time_us : 0;
  return sum_us * 1e-6;
}

ReplayResult replay_search(Strategy& strategy, const Replay& replay, const StopConditions& conditions) {
  ReplayResult result;
  StopRule stop(conditions);
  double elapsed_us = 0;
  while (true) {
    const std::vector<Candidate> candidates = strategy.ask(1);
    if (candidates.empty()) return result;
    const Trial trial = replay.measure(candidates.front());
    elapsed_us += trial.ok ? trial.time_us : 0;
    strategy.tell(candidates.front(), trial);
    result.best.tell(candidates.front(), trial);
    stop.measured(result.best.best_sum_us());
    result.trials = stop.trials();
    result.stopped = stop.reached(elapsed_us * 1e-6);
    if (!result.stopped.empty()) return result;
  }
}

}  // namespace fusetune::search
