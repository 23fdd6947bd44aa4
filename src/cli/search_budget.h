// What a search is going to take, before it begins: `search --dry-run`, and what a search compares itself
// with.
//
// Seconds come from what earlier searches on the same device took for a kernel compiled and a candidate
// measured. Where there was none, the timing protocol says what samples take at least, and of compilation
// nothing is known: a figure without a basis is left out.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/search_rehearsal.h"
#include "store/records.h"

namespace fusetune::cli {

/// Where a search's time went, seconds by the clock.
struct SearchTime {
  double total_s = 0;
  double compile_s = 0;
  int compiled = 0;  // kernels that were not in the cache
  double measure_s = 0;
  int measured = 0;     // candidates, before the finals
  int devices = 1;      // that measured them
  double finals_s = 0;  // finalists compiled and timed against each other; 0: the comparison was known
};
nlohmann::json to_json(const SearchTime& time);

/// A search that is over, as its run's row keeps it.
struct PastSearch {
  std::string problem, cache_mode;
  std::string settings;  // store::settings_text()
  SearchTime time;
};
/// The newest of `runs` (newest first) that ran in `environment` and say where their time went.
std::vector<PastSearch> past_searches(std::span<const store::RunRecord> runs, const std::string& environment);

/// Seconds, with where they come from.
struct Figure {
  std::optional<double> seconds;  // nullopt: not known
  bool at_least = false;
  std::string source;
};

struct Budget {
  std::int64_t kernels = 0, plans = 0;  // candidates: those of the rehearsal
  std::int64_t known = 0, to_measure = 0, to_compile = 0;
  Counts counts = Counts::exact;
  Figure compile, device, finals;
  /// --time-limit, where compiling and measuring would take longer: the counts are those without it.
  std::optional<double> ended_by_limit_s = {};

  /// Seconds in all; nullopt where a part is not known.
  std::optional<double> total_s() const;
};

/// What the figures are made from.
struct BudgetInputs {
  std::string problem, cache_mode, settings;  // of the search
  int samples = 12;
  int devices = 1;  // that measure at once
  double min_sample_s = 1e-3;
  std::optional<double> time_limit_s = {};
  double reference_us = 0;  // of the plan that candidates are timed beside; 0: not known
  std::int64_t to_compile = 0;
  std::span<const PastSearch> past = {};
};
Budget make_budget(const Rehearsal& rehearsal, const BudgetInputs& inputs);

/// That of a search which the database has answered: so many candidates, and a comparison that was made
/// before.
Budget answered_budget(std::int64_t kernels, std::int64_t plans);

/// The prediction for this search: what --dry-run prints, and what a search compares itself with that has
/// something to measure. Reads store and kernel cache, writes neither, compiles nothing.
Budget predict_budget(const std::string& strategy, measure::Session& session,
                      const measure::SessionOptions& session_options, store::TuningStore& store,
                      const SearchSettings& settings);

/// Lines for people: candidates, compilation, device, finals, and all together.
std::string describe(const Budget& budget);
nlohmann::json to_json(const Budget& budget);
/// "predicted 41 s (compile 12 s, device 29 s), took 38 s (compile 10 s, device 28 s)"; the device's time
/// includes the finals.
std::string compare_with(const Budget& budget, const SearchTime& time);

}  // namespace fusetune::cli
