// TuningStore: every measurement ever made, in one SQLite file that several searches may share.
//
// Reading guide: values in records.h, schema in data/schema/, opening and migrating in database.cpp,
// statements in *_rows.cpp, who measures what in claims.h. Every call that writes is one transaction, so
// Ctrl-C or `kill -9` loses at most the candidate in flight. All calls throw base::EnvironmentError where the
// file or its disk fails (earlier rows stay intact) and base::InternalError for a value that must not be
// stored (a NaN time, an `ok` without a time).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "store/contents.h"
#include "store/records.h"
#include "store/schema.h"

namespace fusetune::store {

/// The file is a database, but its content is damaged or cut off.
struct DamagedFile : base::EnvironmentError {
  using base::EnvironmentError::EnvironmentError;
};

enum class Access {
  create,    // to write; made where it is not there
  existing,  // to write
  look,      // to read: a file that may not be written is looked at in a copy, which is said once
  copy,      // to read, in a copy: the file stays as it is, whatever its schema
};

struct StoreOptions {
  Access access = Access::create;
  int busy_timeout_ms = 30'000;                // how long to wait for another writer
  std::int64_t maximum_pages = 0;              // quota on the file's size in SQLite pages; 0: none
  std::string vfs = {};                        // SQLite file layer, e.g. "unix-dotfile"; empty: the default
  std::span<const Migration> migrations = {};  // empty: the program's own
};

enum class ClaimPolicy {
  reuse,  // any result is an answer
  retry,  // measure again what may_retry()
  fresh,  // measure again whatever is there
};
enum class ClaimState {
  granted,   // a `started` row is committed: measure, then record or release
  measured,  // `record` has the result
  held,      // another living process is measuring it now
};
template <typename Record>
struct BasicClaim {
  using State = ClaimState;
  ClaimState state = ClaimState::granted;
  std::optional<Record> record;
};
using Claim = BasicClaim<TuningRecord>;
using PlanClaim = BasicClaim<PlanRecord>;

/// Of the library that runs, such as "3.40.1".
std::string_view sqlite_version();

struct StoreStats {
  std::int64_t problems = 0, environments = 0, runs = 0, comparisons = 0, bytes = 0;
  std::map<std::string, std::int64_t> segments_by_outcome, plans_by_outcome;
  std::string journal_mode;
  int schema_version = 0;
};

class Connection;

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
  /// counts as a crash first. `candidate.limits` say how long it may take this time. Problem and environment
  /// must have been registered by begin_run().
  Claim claim(const TuningRecord& candidate, ClaimPolicy policy);
  /// Stores the result of a claimed candidate, or of one that needed no claim (it did not compile).
  void record(const TuningRecord& result);
  /// Gives a claim up without a result, e.g. when the user interrupts: what it replaced is there again.
  void release(const SegmentKey& key);

  std::optional<TuningRecord> find(const SegmentKey& key) const;
  /// Finished measurements of one problem, environment and cache mode (any protocol and settings), oldest
  /// first.
  std::vector<TuningRecord> records(const std::string& problem, const std::string& environment,
                                    const std::string& cache_mode) const;
  /// Schedule text of a variant's fastest `ok` measurement in this cache mode. Times made in different ways
  /// are not compared: rows of the same data are taken where there are any, of these the ones of the same
  /// settings, of these the ones of the newest protocol. Rows that are not `usable` are passed over.
  std::optional<std::string> best_schedule(
      const std::string& problem, const std::string& environment, const MeasuredLike& like, int variant,
      const std::function<bool(const std::string& schedule, const std::string& source_hash)>& usable = {})
      const;

  /// What the reference plan takes under these settings: as agreed, else as the oldest row says that was
  /// timed beside it. nullopt: nothing was.
  std::optional<double> reference_time(const std::string& problem, const std::string& environment,
                                       const std::string& cache_mode, const std::string& settings) const;
  /// Proposes `time_us`; returns what is agreed, which may be another search's.
  double agree_on_reference_time(const std::string& problem, const std::string& environment,
                                 const std::string& cache_mode, const std::string& settings, double time_us);

  /// The same three for whole plans. A plan that was once drawn uniformly (`sampled`) stays so, and a uniform
  /// draw that is answered by what is there makes that row uniform: claim what was drawn, don't find_plan()
  /// it.
  PlanClaim claim_plan(const PlanRecord& candidate, ClaimPolicy policy);
  void record_plan(const PlanRecord& result);
  void release_plan(const PlanKey& key);

  std::optional<PlanRecord> find_plan(const PlanKey& key) const;
  /// Finished measurements of one problem, environment and cache mode (any protocol and settings), oldest
  /// first.
  std::vector<PlanRecord> plan_records(const std::string& problem, const std::string& environment,
                                       const std::string& cache_mode) const;

  /// Numbers of rows in segment_measurement and plan_measurement, for documents that refer to them. They are
  /// of this file: another database that takes the rows over numbers them anew.
  std::optional<std::int64_t> row_number(const SegmentKey& key) const;
  std::optional<std::int64_t> row_number(const PlanKey& key) const;

  /// Stores a run's finalists, the baseline first, with their plans: all or none. What a comparison says of a
  /// plan replaces what an earlier comparison said, unless it is `skipped` or `noisy`; the time that a
  /// strategy took stays, unless the plan failed.
  void record_finalists(std::int64_t run, std::span<const ComparisonRecord> finalists);
  /// The finalists of the newest finished run with this hash.
  std::optional<std::vector<ComparisonRecord>> find_finalists(const std::string& finalists_hash) const;

  /// Everything that is selected, of one moment.
  Contents contents(const Selection& selection = {}) const;
  /// Takes rows of elsewhere over, all or none: of two measurements with one key the one with a time stays,
  /// else the newer one. A search that is here already is not added again. Environments of the rows must be
  /// among `contents.environments`.
  Absorbed absorb(const Contents& contents);
  /// Removes rows and gives their room back to the disk. Claims and runs of living processes stay.
  /// `dry_run`: only counts.
  Pruned prune(const Pruning& pruning, bool dry_run);

  StoreStats stats() const;
  /// Everything wrong with the file: SQLite's integrity and foreign key checks, and values that contradict
  /// each other. Empty: sound.
  std::vector<std::string> check() const;

 private:
  const Connection& connection() const;

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fusetune::store
