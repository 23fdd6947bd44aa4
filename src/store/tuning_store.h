// TuningStore: every measurement ever made, in one SQLite file that several searches may share.
//
// Reading guide: schema in data/schema/, opening and migrating in database.cpp, statements in
// tuning_store.cpp. Every call that writes is one transaction, so Ctrl-C or `kill -9` loses at most the
// candidate in flight. All calls throw base::EnvironmentError where the file or its disk fails (earlier rows
// stay intact) and base::InternalError for a value that must not be stored (a NaN time, an `ok` without a
// time).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "measure/outcome.h"
#include "store/schema.h"

namespace fusetune::store {

/// The file is a database, but its content is damaged or cut off.
struct DamagedFile : base::EnvironmentError {
  using base::EnvironmentError::EnvironmentError;
};

enum class Access { create, existing };

struct StoreOptions {
  Access access = Access::create;
  int busy_timeout_ms = 30'000;                // how long to wait for another writer
  std::int64_t maximum_pages = 0;              // quota on the file's size in SQLite pages; 0: none
  std::string vfs = {};                        // SQLite file layer, e.g. "unix-dotfile"; empty: the default
  std::span<const Migration> migrations = {};  // empty: the program's own
};

/// Where measurements were made. Rows of different fingerprints are never mixed.
struct EnvironmentRecord {
  std::string fingerprint;
  std::map<std::string, std::string> fields;
};

/// What makes two measurements of a segment the same measurement.
struct SegmentKey {
  std::string problem;             // block::Problem::key()
  std::string environment;         // fingerprint
  int variant = 0;                 // plan::variant_index()
  std::string source_hash;         // of the kernel's source
  std::string layouts;             // weight layouts it reads
  std::string data = "generated";  // or a hash of the weights and input files
  std::string cache_mode;          // "model", "warm", "cold"
  int protocol = 1;                // measure::kProtocolVersion

  bool operator==(const SegmentKey&) const = default;
};

/// A segment variant with its schedule, and what became of it.
struct TuningRecord {
  SegmentKey key;
  std::string schedule;
  measure::Measurement measurement;
  std::string repeat_command;  // a command line that shows the same again
  int attempts = 1;            // times it was started
  int abandoned = 0;           // times its process died before a result
  std::int64_t run = 0;        // search run that measured it; 0: none
  std::int64_t created = 0;    // seconds since 1970; 0: now
};

/// True where one more try is due: noisy fewer than three times, or a crash that may have been the searching
/// process's own (killed, power cut) and was not tried again since.
bool may_retry(const TuningRecord& record);

enum class ClaimPolicy {
  reuse,  // any result is an answer
  retry,  // measure again what may_retry()
  fresh,  // measure again whatever is there
};
struct Claim {
  enum class State {
    granted,   // a `started` row is committed: measure, then record() or release()
    measured,  // `record` has the result
    held,      // another living process is measuring it now
  };
  State state = State::granted;
  std::optional<TuningRecord> record;
};

/// A whole plan, timed whole.
struct PlanRecord {
  std::string problem, environment;
  std::uint16_t mask = 0;                   // canonical
  std::optional<std::uint16_t> typed_mask;  // as the user wrote it
  std::vector<std::string> schedules;       // one per segment, in order
  std::string sources_hash;                 // of its kernels' source hashes
  std::string data = "generated";
  std::string cache_mode;
  int protocol = 1;
  measure::Measurement measurement;  // samples are not kept for plans
  double sum_us = 0;                 // of its segments' medians; 0: not known
};

/// A finalist of a run against the run's baseline plan.
struct ComparisonRecord {
  PlanRecord plan;                      // its own time as this comparison saw it
  double ratio = 1, low = 1, high = 1;  // time plan / time baseline and its 95 % interval; `ok` only
  int pairs = 0;
  /// Time plan / sum of its segments' times, timed in turn, and its 95 % interval.
  struct WholeOverSum {
    double ratio = 1, low = 1, high = 1;
  };
  std::optional<WholeOverSum> whole_over_sum;  // not there: not measured
};

/// Of the library that runs, such as "3.40.1".
std::string_view sqlite_version();

enum class RunState { running, finished, interrupted, failed };
std::string_view name(RunState state);

struct RunRecord {
  std::int64_t id = 0;
  std::string problem, environment;
  RunState state = RunState::running;
  std::int64_t started = 0;
  std::optional<std::int64_t> finished;
  std::string options;         // JSON
  std::string finalists_hash;  // empty: it did not get there
  std::string result;          // JSON; empty: none
};

struct StoreStats {
  std::int64_t problems = 0, environments = 0, runs = 0, plans = 0, comparisons = 0, bytes = 0;
  std::map<std::string, std::int64_t> segments_by_outcome;
  std::string journal_mode;
  int schema_version = 0;
};

class TuningStore {
 public:
  explicit TuningStore(const std::filesystem::path& path, const StoreOptions& options = {});
  ~TuningStore();
  TuningStore(TuningStore&&) noexcept;

  const std::filesystem::path& path() const;

  /// Registers problem and environment and opens a run. `options_json`: the search's options, an object.
  std::int64_t begin_run(const std::string& problem, const EnvironmentRecord& environment,
                         const std::string& options_json);
  /// `finalists_hash`: hash of everything the comparison depends on, for find_finalists(); may be empty.
  void finish_run(std::int64_t run, RunState state, const std::string& result_json,
                  const std::string& finalists_hash);
  /// Newest first.
  std::vector<RunRecord> runs() const;

  /// Turns what dead processes left `started` into crashes, and their runs into interrupted ones. Returns how
  /// many candidates that were.
  int recover_abandoned();

  /// Commits a `started` row unless the answer is there or another process is at it. A dead process's row
  /// counts as a crash first. Problem and environment must have been registered by begin_run().
  Claim claim(const TuningRecord& candidate, ClaimPolicy policy);
  /// Stores the result of a claimed candidate, or of one that needed no claim (it did not compile).
  void record(const TuningRecord& result);
  /// Gives a claim up without a result, e.g. when the user interrupts: what it replaced is there again.
  void release(const SegmentKey& key);

  std::optional<TuningRecord> find(const SegmentKey& key) const;
  /// Finished measurements of one problem, environment and cache mode (any protocol), oldest first.
  std::vector<TuningRecord> records(const std::string& problem, const std::string& environment,
                                    const std::string& cache_mode) const;
  /// Schedule text of the fastest `ok` measurement of a variant, of the newest protocol there is.
  std::optional<std::string> best_schedule(const std::string& problem, const std::string& environment,
                                           const std::string& cache_mode, int variant) const;

  /// Stores or replaces the measurement of one plan.
  void record_plan(const PlanRecord& plan, std::int64_t run);
  /// Stores a run's finalists, the baseline first, with their plans: all or none.
  void record_finalists(std::int64_t run, std::span<const ComparisonRecord> finalists);
  /// The finalists of the newest finished run with this hash.
  std::optional<std::vector<ComparisonRecord>> find_finalists(const std::string& finalists_hash) const;

  StoreStats stats() const;
  /// Everything wrong with the file: SQLite's integrity and foreign key checks, and values that contradict
  /// each other. Empty: sound.
  std::vector<std::string> check() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fusetune::store
