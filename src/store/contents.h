// Contents: rows of a store as values, to be written to a file, read from one, or taken over by another
// store.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "store/records.h"

namespace fusetune::store {

/// Which rows. Empty: any.
struct Selection {
  std::string problem = {};      // key
  std::string environment = {};  // how the fingerprint begins
  std::string cache_mode = {};   // of measurements
};

/// Claims are not among them: they say nothing yet.
struct Contents {
  std::vector<EnvironmentRecord> environments;  // of all rows below
  std::vector<RunRecord> runs;                  // oldest first; their numbers mean something only in here
  std::vector<TuningRecord> segments;           // oldest first
  std::vector<PlanRecord> plans;                // oldest first
  std::map<std::int64_t, std::vector<ComparisonRecord>> finalists;  // by run; the baseline first
};

/// What became of the rows that a store was given.
struct Absorbed {
  struct Table {
    std::int64_t added = 0;
    std::int64_t replaced = 0;  // the store's row had no time, or was older
    std::int64_t kept = 0;      // the store's own row
    std::int64_t held = 0;      // a living process is measuring it: left alone
  };
  Table runs, segments, plans;
  std::int64_t comparisons = 0;  // added, with their runs
};

/// Which rows to remove: those that meet everything that is given. Searches and their comparisons have
/// neither outcome nor protocol: they stay where one of these is given, but for comparisons that lose a plan.
struct Pruning {
  std::int64_t before = 0;                      // made before this moment, seconds since 1970; 0: any
  Selection rows = {};                          // `cache_mode` included
  std::vector<measure::Outcome> outcomes = {};  // any of them; empty: any
  int protocol_before = 0;                      // measured with a protocol older than this; 0: any

  /// Something is given.
  bool any() const;
};
struct Pruned {
  std::int64_t segments = 0, plans = 0, runs = 0, comparisons = 0, problems = 0, environments = 0;
  std::int64_t held = 0;  // met the criteria, but a living process is at work on them
};

/// Times of plans as the research notes keep them: mask (any, not only canonical) and milliseconds, as rows
/// of an environment that is only a label. They count as uniform draws. Of equal plans the faster counts; how
/// many lost is added to `duplicates`. Throws base::UsageError for a time that is not finite and positive.
Contents contents_of_plan_times(const std::string& problem, const std::string& label,
                                const std::string& cache_mode,
                                std::span<const std::pair<std::uint16_t, double>> times, int& duplicates);

}  // namespace fusetune::store
