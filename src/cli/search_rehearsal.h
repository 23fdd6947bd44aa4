// What a search would ask for: its strategy is run against the database, nothing is compiled or timed.
//
// Candidates that the database answers are told as they are. The others are told a stand-in for their time:
// where the problem has rows, what these make expect of the variant; else what the search's first prior that
// knows the kernel expects, else its FLOPs and bytes. That decides which candidates follow, so the counts of
// a search that has something left to measure are a forecast, which takes the prior to be right.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/searcher.h"
#include "codegen/any_kernel.h"
#include "measure/session.h"
#include "store/tuning_store.h"

namespace fusetune::cli {

/// What the counts of candidates are.
enum class Counts {
  exact,    // everything is recorded
  about,    // a forecast: they depend on times that nobody has taken yet
  at_most,  // the strategy or a limit may end the search earlier than a rehearsal can know
};

struct Rehearsal {
  std::int64_t kernels = 0, plans = 0;  // candidates in all, whole plans among them apart
  std::int64_t known = 0;               // of both: the database answers
  Counts counts = Counts::exact;
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
