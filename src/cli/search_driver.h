// The search itself, without its command line: ask -> generate -> compile -> measure -> store -> tell, then
// the best plans timed whole.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/search_progress.h"
#include "codegen/kernel_source.h"
#include "measure/session.h"
#include "search/selection.h"
#include "search/stop.h"
#include "search/strategy.h"
#include "store/tuning_store.h"

namespace fusetune::cli {

struct SearchSettings {
  search::StopConditions stop;
  bool fresh = false;  // measure again what the store has
  int finalists = 8;   // cheapest plans by sum that are timed whole, besides the reference plans
  int pairs = 0;       // alternating pairs of each finalist with the baseline; 0: as many as time allows
  std::string cache_mode;
  std::string timing;          // store::settings_text()
  store::Limits limits;        // of one candidate
  std::string data;            // "generated", or a hash of the weights and input files
  std::string repeat_options;  // of a command line that repeats one candidate
};

struct FailedCandidate {
  std::string variant, schedule, message, repeat_command;
  measure::Outcome outcome = measure::Outcome::skipped;
};

/// What the segment phase did.
struct SearchCounts {
  int reused = 0;    // known from the store
  int measured = 0;  // run now; a noisy candidate that is measured again counts again
  int candidates() const {
    int sum = 0;
    for (const auto& [outcome, count] : outcomes) sum += count;
    return sum;
  }
  std::map<measure::Outcome, int> outcomes;
  std::vector<FailedCandidate> failures;
  std::vector<double> compile_seconds;  // of each kernel compiled now: its share of a compiler's run
};

/// Finalists with their whole-plan times; the baseline of the comparison is the first.
struct FinalResult {
  std::vector<store::ComparisonRecord> finalists;
  search::Decision decision;
  std::string hash;     // of everything the comparison depends on
  bool reused = false;  // from the store

  const store::ComparisonRecord& winner() const { return finalists[decision.winner]; }
};

class SearchDriver {
 public:
  SearchDriver(measure::Session& session, store::TuningStore& store, std::int64_t run,
               SearchSettings settings);

  /// Measures segments until the strategy ends, a condition stops it (the reason is returned) or the user
  /// interrupts (throws Interrupted; everything measured is in the store).
  std::string measure_segments(search::Strategy& strategy, SearchProgress& progress);

  const search::Incumbents& best() const { return best_; }
  const SearchCounts& counts() const { return counts_; }
  double seconds() const;

  /// The plans worth timing whole; empty: no complete plan has times.
  std::vector<search::Finalist> finalists() const;
  /// Times them, or takes the comparison from the store where nothing it depends on has changed. nullopt:
  /// every finalist failed when run whole. Throws Interrupted.
  std::optional<FinalResult> time_finalists(const std::vector<search::Finalist>& finalists);

 private:
  struct Job {
    search::Candidate candidate;
    codegen::KernelSource source;
    store::TuningRecord record;
    backend::cpu::CompiledKernel kernel;
    bool tried = false;  // in this run: it was noisy
    bool retry = false;  // by an earlier run, which did not get a lasting answer
  };
  struct Entry;

  bool answer_from_store(Job& job, search::Strategy& strategy);
  std::vector<Job> prepare(const std::vector<search::Candidate>& candidates, search::Strategy& strategy);
  std::vector<Job> compile(std::vector<Job> jobs, search::Strategy& strategy, SearchProgress& progress);
  void measure(std::vector<Job> jobs, search::Strategy& strategy, SearchProgress& progress);
  void measure(Job job, search::Strategy& strategy);
  void finish(Job job, measure::Measurement measurement, search::Strategy& strategy);
  void show(const search::Strategy& strategy, SearchProgress& progress, const std::string& extra) const;
  void tell(const store::TuningRecord& record, const search::Candidate& candidate,
            search::Strategy& strategy);
  void note_new_best_sum();
  codegen::KernelSource generate(int variant, const lower::Schedule& schedule) const;
  store::TuningRecord record_of(const search::Candidate& candidate,
                                const codegen::KernelSource& source) const;

  std::vector<Entry> entries_of(const std::vector<search::Finalist>& finalists) const;
  static int times_that_fit(const std::vector<Entry>& entries, double samples, int least, int most);
  int pairs_for(const std::vector<Entry>& entries) const;
  std::string finalists_hash(const std::vector<Entry>& entries, int pairs) const;
  void compile_entries(std::vector<Entry>& entries);
  std::vector<Entry> compare(std::vector<Entry> entries, int pairs);
  void compare_with_parts(std::vector<Entry>& entries);
  static bool is_ok(const Entry& entry);
  static std::vector<store::ComparisonRecord> records_of(const std::vector<Entry>& entries);

  measure::Session& session_;
  store::TuningStore& store_;
  std::int64_t run_;
  SearchSettings settings_;
  lower::CpuTarget target_;
  search::StopRule stop_;
  search::Incumbents best_;
  SearchCounts counts_;
  std::vector<Job> noisy_;  // measured again when the strategy waits
  double best_sum_us_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace fusetune::cli
