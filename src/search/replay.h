// Recorded measurements in place of a device: strategies are tested and compared without one.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "search/stop.h"
#include "search/strategy.h"

namespace fusetune::search {

/// One recorded measurement of a segment variant.
struct Recording {
  int variant = 0;
  std::string schedule;  // lower::AnySchedule::to_string()
  Trial trial;
};

class Replay {
 public:
  /// Of several recordings of one candidate the last counts, as in a store. Schedules are of the target's
  /// kind. `work`: as of Space.
  explicit Replay(std::span<const Recording> recordings, const lower::Target& target = lower::CpuTarget(),
                  std::function<Work(int variant)> work = {});
  /// The candidate's recorded result; a failed trial where nothing was recorded.
  Trial measure(const Candidate& candidate) const;
  /// The space of what was recorded, schedules in recording order; those with the tile where one is given.
  Space space() const;
  /// Time a search that measures the same would spend running kernels, in seconds.
  double seconds() const;

 private:
  std::map<Candidate, Trial> trials_;
  std::vector<Candidate> order_;
  std::function<Work(int variant)> work_;
};

struct ReplayResult {
  Incumbents best;
  std::int64_t trials = 0;
  std::string stopped;  // by which condition; empty: the strategy ran out of candidates
};

/// Runs a strategy against a recording until it ends or a condition stops it; each trial takes its recorded
/// time.
ReplayResult replay_search(Strategy& strategy, const Replay& replay, const StopConditions& conditions = {});

}  // namespace fusetune::search
