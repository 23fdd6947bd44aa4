// What a search would ask for: its strategy is run against the database, nothing is compiled or timed.
//
// Candidates that the database answers are told as they are. The others are told a stand-in for their time:
// what the variant took in earlier rows, else what the search's last prior expects of the kernel, else its
// FLOPs and bytes. That decides which candidates follow, so the counts of a search that has something left to
// measure are a forecast. Where a limit may end it earlier than a rehearsal can know, they are upper bounds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/searcher.h"
#include "codegen/any_kernel.h"
#include "measure/session.h"
#include "store/tuning_store.h"

namespace fusetune::cli {

struct Rehearsal {
  std::int64_t kernels = 0, plans = 0;      // candidates in all, whole plans among them apart
  std::int64_t known = 0;                   // of both: the database answers
  bool at_most = false;                     // the counts are upper bounds
  bool about = false;                       // they depend on times that nobody has taken yet
  std::vector<codegen::AnyKernel> sources;  // of candidates to be measured
  /// Of each candidate to be measured, microseconds; 0: nothing recorded tells.
  std::vector<double> expected_us;
  /// The plans timed against each other would be those that an earlier search has compared.
  bool finals_known = false;

  std::int64_t to_measure() const { return kernels + plans - known; }
};

/// `strategy`: a name that search::find_strategy() or search::find_plan_strategy() knows. Stops at
/// `settings.stop.trials`; other limits are not followed. Reads the store only.
Rehearsal rehearse(const std::string& strategy, measure::Session& session, store::TuningStore& store,
                   const SearchSettings& settings);

}  // namespace fusetune::cli
