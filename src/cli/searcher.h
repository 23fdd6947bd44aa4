// What the stages of a search have in common: their settings, their counts, and the face that the command and
// the report see.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/search_progress.h"
#include "lower/schedule.h"
#include "measure/outcome.h"
#include "measure/statistics.h"
#include "search/certificate.h"
#include "search/segment_prior.h"
#include "search/selection.h"
#include "search/space.h"
#include "search/stop.h"
#include "search/strategy.h"
#include "store/records.h"

namespace fusetune::cli {

/// Candidates that a strategy is asked for at once, which are compiled together before they are measured:
/// while anything is timed, nothing compiles.
inline constexpr int kSearchBatch = 32;

struct SearchSettings {
  search::StopConditions stop;
  bool fresh = false;  // measure again what the store has
  int finalists = 8;   // best plans that are timed against each other, besides the reference plans
  int pairs = 0;       // alternating pairs of each finalist with the baseline; 0: as many as time allows
  double comparison_s = 30;  // that time; a round of the comparison that begins within it is finished
  std::string cache_mode;
  std::string timing;          // store::settings_text(), the reference in it
  std::string timing_alone;    // the same without: where the reference does not run
  double epsilon = 0.02;       // `guided` may end where the certificate closes at it
  search::Priors priors = {};  // of a strategy that takes some
  store::Limits limits;        // of one candidate
  std::string data;            // "generated", or a hash of the weights and input files
  std::string repeat_options;  // of a command line that repeats one candidate
  /// Called before anything is compiled to be measured, each time: a search that the database answers never
  /// gets there. Seconds that this took for itself, which no limit counts.
  std::function<double()> begins_work = [] { return 0.0; };
};

struct FailedCandidate {
  std::string name;      // "[7-14]", "mask 20480"
  std::string schedule;  // of a segment; empty for a plan
  std::string message, repeat_command;
  measure::Outcome outcome = measure::Outcome::skipped;
};

/// What a stage did.
struct SearchCounts {
  int reused = 0;    // known from the store
  int measured = 0;  // run now; a noisy candidate that is measured again counts again
  int candidates() const {
    int sum = 0;
    for (const auto& [outcome, count] : outcomes) sum += count;
    return sum;
  }
  std::map<measure::Outcome, int> outcomes;
  std::vector<FailedCandidate> failures;  // those skipped too
  /// For want of a compiler: nobody knows whether they fail.
  int skipped() const {
    const auto found = outcomes.find(measure::Outcome::skipped);
    return found == outcomes.end() ? 0 : found->second;
  }
  int failed() const { return static_cast<int>(failures.size()) - skipped(); }
  std::vector<double> compile_seconds;  // of each kernel compiled now: its share of a compiler's run

  /// What the machine was like beside the candidates measured now; reference_us is 0 when there were none.
  double reference_us = 0, least_slowdown = 0, most_slowdown = 0;
  void note_reference(const measure::Measurement& measurement) {
    if (!(measurement.reference_us > 0)) return;
    const bool first = reference_us == 0;
    reference_us = measurement.reference_us;
    least_slowdown = first ? measurement.slowdown : std::min(least_slowdown, measurement.slowdown);
    most_slowdown = std::max(most_slowdown, measurement.slowdown);
  }

  /// Those of another stage of the same search.
  void add(const SearchCounts& other) {
    reused += other.reused;
    measured += other.measured;
    for (const auto& [outcome, count] : other.outcomes) outcomes[outcome] += count;
    failures.insert(failures.end(), other.failures.begin(), other.failures.end());
    compile_seconds.insert(compile_seconds.end(), other.compile_seconds.begin(), other.compile_seconds.end());
    if (!(other.reference_us > 0)) return;
    least_slowdown = reference_us > 0 ? std::min(least_slowdown, other.least_slowdown) : other.least_slowdown;
    most_slowdown = std::max(most_slowdown, other.most_slowdown);
    reference_us = other.reference_us;
  }
};

/// A stage that measured these and stops by this rule, `seconds` after it began; its unit and what it expects
/// are the caller's to say.
inline StageProgress stage_progress(const SearchCounts& counts, const search::StopRule& stop,
                                    double seconds) {
  return {.done = counts.candidates(),
          .reused = counts.reused,
          .trials_left = stop.trials_left(),
          .seconds = seconds,
          .seconds_left = stop.seconds_left(seconds)};
}

/// What a strategy hears of a measurement.
inline search::Trial trial_of(const measure::Measurement& measurement) {
  const auto [first, second] = measure::half_medians(measurement.samples_us);
  return {measurement.outcome == measure::Outcome::ok,
          measurement.time.median_us,
          first,
          second,
          measurement.time.mad_us,
          measurement.time.count};
}

/// Candidates of a strategy that have no result: kernels, or plans where nothing but plans is timed.
struct Untimed {
  std::int64_t pruned = 0;  // put into the slow class by its model
  std::int64_t left = 0;    // the others
  /// In no plan worth having, as things stood when they were not asked for; what they are at the end the
  /// certificate says.
  std::int64_t proved = 0;
};

/// Of a search that timed plans whole.
struct PlanCounts {
  std::int64_t tried = 0;
  std::int64_t timed = 0;      // of these, what has a time
  std::int64_t predicted = 0;  // from those that were timed
};

class Searcher {
 public:
  virtual ~Searcher() = default;
  /// Measures until the strategy ends, a condition stops it (the reason is returned) or the user interrupts
  /// (throws Interrupted; everything measured is in the store).
  virtual std::string run(SearchProgress& progress) = 0;

  virtual const SearchCounts& counts() const = 0;
  /// "147 of 147 variants timed": for the report's first lines.
  virtual std::string summary() const = 0;
  /// Variants or plans that have a time.
  virtual int timed_count() const = 0;
  /// Since run() began.
  virtual double seconds() const = 0;
  /// The plans worth comparing, best first; empty: no complete plan has a time.
  virtual std::vector<search::Finalist> finalists() const = 0;
  /// Kernels timed alone, for the certificate; none where only whole plans were timed.
  virtual std::span<const search::TimedEdge> edges() const { return {}; }
  virtual Untimed untimed() const = 0;
  /// Kernels that the strategy knows and left out, for the certificate.
  virtual std::vector<search::UntimedCandidate> untimed_kernels() const { return {}; }
  /// What an audit says of the kernels that a model pruned; nullopt: there was none.
  virtual std::optional<search::PruningReport> pruning() const { return std::nullopt; }
  /// How the priors did that the strategy was given; none: it had none, or ended before their test.
  virtual std::span<const search::PriorTest> prior_tests() const { return {}; }
  /// nullopt: no stage of it timed plans whole.
  virtual std::optional<PlanCounts> plan_counts() const { return std::nullopt; }
  /// What a variant is compiled with; nullopt: it cannot run, or was not timed.
  virtual std::optional<lower::AnySchedule> schedule(int variant) const = 0;
};

}  // namespace fusetune::cli
