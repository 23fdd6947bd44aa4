// What the store keeps, as plain values: measurements of segments and of plans, runs and their finalists.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "measure/outcome.h"

namespace fusetune::store {

/// Where measurements were made. Rows of different fingerprints are never mixed.
struct EnvironmentRecord {
  std::string fingerprint;
  std::map<std::string, std::string> fields;
};

/// The timing settings that change a figure, in the words that are part of every key:
/// "samples=12 min_time=0.001 reference=5f0c2a9b41d7". `min_time_s`: seconds a sample lasts at least.
/// `reference`: hash of the plan that candidates are timed beside; empty: none.
std::string settings_text(int samples, double min_time_s, const std::string& reference = {});
/// What version 1 of the schema did not record was measured with these.
inline constexpr const char* kDefaultSettings = "samples=12 min_time=0.001";

/// How long compiling and running one candidate may take, seconds. 0: not known.
struct Limits {
  double compile_s = 0, run_s = 0;

  bool operator==(const Limits&) const = default;
};

/// What became of a candidate that was tried, be it a segment or a plan.
struct Trial {
  measure::Measurement measurement;
  std::string repeat_command;  // a command line that shows the same again
  Limits limits;               // it was tried under
  int attempts = 1;            // times it was started
  int abandoned = 0;           // times its process died before a result
  std::int64_t run = 0;        // search run that measured it; 0: none
  std::int64_t created = 0;    // seconds since 1970; 0: now
};

/// True where one more try is due: noisy fewer than three times, a crash that may have been the searching
/// process's own (killed, power cut) and was not tried again since, or a timeout under limits that are now
/// longer.
bool may_retry(const Trial& trial, const Limits& now = {});

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
  std::string settings = kDefaultSettings;

  bool operator==(const SegmentKey&) const = default;
};

/// What a caller knows of measurements it wants to resemble; an empty word: nothing.
struct MeasuredLike {
  std::string cache_mode;     // always known
  std::string data = {};      // as of SegmentKey
  std::string settings = {};  // settings_text()
};

/// A segment variant with its schedule, and what became of it.
struct TuningRecord : Trial {
  SegmentKey key;
  std::string schedule;
};

/// What makes two measurements of a whole plan the same measurement.
struct PlanKey {
  std::string problem, environment;  // as of a segment
  std::uint16_t mask = 0;            // canonical
  std::string sources_hash;          // of its kernels' source hashes
  std::string data = "generated";
  std::string cache_mode;
  int protocol = 1;
  std::string settings = kDefaultSettings;

  bool operator==(const PlanKey&) const = default;
};

/// `sources_hash` of plans whose times came from a file that names no kernels.
inline constexpr const char* kImportedSources = "imported";

/// How a plan came to be timed.
enum class Sampled {
  uniform,   // drawn from all plans with equal chances: what shares of all plans are counted in
  guided,    // chosen by a strategy for its promise
  finalist,  // timed against the other best ones
};
std::string_view name(Sampled sampled);
/// Throws base::UsageError.
Sampled parse_sampled(std::string_view text);

/// A whole plan, timed whole.
struct PlanRecord : PlanKey, Trial {
  std::optional<std::uint16_t> typed_mask;  // as the user wrote it
  std::vector<std::string> schedules;       // one per segment, in order
  double sum_us = 0;                        // of its segments' medians; 0: not known
  Sampled sampled = Sampled::finalist;

  const PlanKey& key() const { return *this; }
};

/// A finalist of a run against the run's baseline plan.
struct ComparisonRecord {
  /// Its own time as this comparison saw it; `slowdown` relates it to the reference. The samples are kept in
  /// the plan's row, where no strategy has timed the plan, and not read back.
  PlanRecord plan;
  double ratio = 1, low = 1, high = 1;  // time plan / time baseline and its 95 % interval; `ok` only
  int pairs = 0;
  /// Time plan / sum of its segments' times, timed in turn, and its 95 % interval.
  struct WholeOverSum {
    double ratio = 1, low = 1, high = 1;
  };
  std::optional<WholeOverSum> whole_over_sum = {};  // not there: not measured
};

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

}  // namespace fusetune::store
