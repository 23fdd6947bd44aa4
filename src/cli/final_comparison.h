// The best plans against each other: alternating pairs with a common baseline until none is clearly faster.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/plan_job.h"
#include "cli/search_progress.h"
#include "cli/searcher.h"
#include "measure/session.h"
#include "search/selection.h"
#include "store/tuning_store.h"

namespace fusetune::cli {

/// Finalists with their whole-plan times; the baseline of the comparison is the first.
struct FinalResult {
  std::vector<store::ComparisonRecord> finalists;
  search::Decision decision;
  std::string hash;     // of everything the comparison depends on
  bool reused = false;  // from the store

  const store::ComparisonRecord& winner() const { return finalists[decision.winner]; }
};

class FinalComparison {
 public:
  FinalComparison(measure::Session& session, store::TuningStore& store, std::int64_t run,
                  const SearchSettings& settings, SearchProgress& progress);

  /// Times them with the searcher's schedules, or takes the comparison from the store where nothing it
  /// depends on has changed. nullopt: every finalist failed when run whole. Throws Interrupted.
  std::optional<FinalResult> time(const std::vector<search::Finalist>& finalists,
                                  const ScheduleOf& schedule_of);

  /// True where time() would take the comparison from the store.
  bool is_known(const std::vector<search::Finalist>& finalists, const ScheduleOf& schedule_of) const;

 private:
  /// A finalist's job, and its place in the comparison.
  struct Entry {
    PlanJob job;
    double expected_us;  // one run
    store::ComparisonRecord record;
  };

  std::vector<Entry> entries_of(const std::vector<search::Finalist>& finalists,
                                const ScheduleOf& schedule_of) const;
  int pairs_for(const std::vector<Entry>& entries) const;
  int rounds_with_parts(const std::vector<Entry>& entries) const;
  std::string hash_of(const std::vector<Entry>& entries, int pairs) const;
  void compile(std::vector<Entry>& entries);
  static bool leave_out_unavailable(std::vector<Entry>& entries);
  void try_out(Entry& entry);
  std::vector<Entry> compare(std::vector<Entry> entries, int pairs);
  bool time_round(std::vector<Entry>& entries, int pairs, int round);
  void relate_to_reference(std::vector<Entry>& entries, const measure::Measurement& beside);
  static void make_baseline(std::vector<Entry>& entries, std::size_t challenger);
  void compare_with_parts(std::vector<Entry>& entries);
  std::function<void(int, int)> shows(std::string stage, const char* unit) const;
  static bool is_ok(const Entry& entry);
  static std::vector<store::ComparisonRecord> records_of(const std::vector<Entry>& entries);

  measure::Session& session_;
  store::TuningStore& store_;
  std::int64_t run_;
  const SearchSettings& settings_;
  SearchProgress& progress_;
};

}  // namespace fusetune::cli
