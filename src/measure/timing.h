// Times of launch sequences: search, bench and profile all take them with this Timer.
//
// How a sample is taken, and when it counts as interrupted, is in sampling.h. Where the caches stand when a
// pass begins is the cache mode's business:
//
//   model  passes take the weights from rotating copies, so that they come from where a model of many layers
//          would find them; activations are as warm as the previous pass left them. The rotation goes on from
//          one sequence to the next: sequences that share weights, and have as many copies of them, would
//          otherwise find in the cache what the one before has just read
//   warm   one copy of everything, pass after pass
//   cold   one pass per sample, after a stream over a buffer of four times the last-level cache
//
// A shared machine's speed changes by a sixth from second to second and by a half now and then, without a
// trace in the scheduler's figures, for all kernels alike. So candidates are timed beside a reference, a
// fixed plan of the same problem that takes about as much of the machine's time:
//
//     ref ref  c c c c c c  ref ref  c c c c c c  ref ref      groups of candidate samples that last as long
//     as a reference's turn, and six of them at least: two of them have to agree
//
// A sample counts as (its time) / (mean of the references around it) x (what the reference takes, a constant
// of the search), so that times taken minutes or sessions apart compare. Where the two references differ by
// more than kReferenceBand, the machine changed in between: that group is taken again. What the references do
// not show, the samples do: those that differ among themselves by more than kMostSpread are taken again, all
// of them, and have no time where they never agree.
//
// Whatever takes turns, a candidate with its reference or plans that are compared, takes several samples at a
// time. What ran before has pushed a plan's weights out of the caches, or has not, where the two share them:
// each turn begins untimed, until the caches are as this sequence leaves them. That was worth a twentieth of
// the ratio of two plans (docs/method.md, "Whose turn it is").
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "backend/executor.h"
#include "block/problem.h"
#include "measure/outcome.h"
#include "measure/sampling.h"
#include "measure/session.h"

namespace fusetune::measure {

/// A series with more than a fifth of its samples interrupted is taken again, this often at most.
inline constexpr int kSeriesAttempts = 3;
/// Two references around a group of samples may differ by this share. A series takes as many samples again as
/// it needs at most: on a machine that is never steady, samples count as they are.
inline constexpr double kReferenceBand = 0.20;

/// A launch sequence to time.
struct TimedSequence {
  backend::LaunchSequence* kernels = nullptr;  // ready
  int copies = 1;                              // of its weights: what ready() said
  std::function<void()> prepare;               // untimed, before each sample: rewrites inputs
  std::function<void()> inspect;  // untimed, after samples and before anything else runs: looks at outputs

  // Kept by the timer between samples.
  int passes = 0;  // per sample; 0: not calibrated yet
};

struct SampleSeries {
  Outcome outcome = Outcome::skipped;  // ok or noisy
  std::string message;                 // noisy: why
  std::vector<double> samples_us;      // per pass, in order, dropped ones left out
  int dropped = 0;                     // of the attempt that counted
  double slowdown = 1;                 // median of the references beside it / what the reference takes
};

/// Samples of a turn of the reference, and of a candidate beside it at least.
inline constexpr int kReferenceSamples = 2, kLeastGroup = 6;

/// What candidates are timed beside.
struct Reference {
  TimedSequence* sequence = nullptr;  // none: samples are what the clock says
  double time_us = 0;                 // what a pass takes by agreement
};

/// Seconds that a series of `samples` samples of `sample_s` takes at least, turns of a reference with samples
/// of `reference_s` included; 0: none.
double least_series_seconds(int samples, double sample_s, double reference_s);

/// Bytes that the weight copies of anything timed should span. Small weights must not stay in a large
/// last-level cache because their segment has few of them: segments and whole plans alike rotate through as
/// many bytes as the model's layers hold, or as surely exceed the cache.
std::int64_t rotation_bytes(CacheMode mode, const block::Problem& problem, std::int64_t cache_bytes);
/// Bytes that replace everything in a device's caches when streamed; `cache_bytes`: of the last level.
std::int64_t cache_flush_bytes(std::int64_t cache_bytes);

/// A pass, kernel by kernel.
struct StampedPass {
  backend::StampedRun run;
  bool interrupted = false;  // as of a Sample
};

class Timer {
 public:
  /// The executor must outlive the timer. `copies_stay`: the copies of a sequence's weights fit into the
  /// last-level cache, all of them together.
  Timer(backend::Executor& executor, CacheMode mode, double min_sample_seconds, bool copies_stay = false)
      : executor_(executor),
        mode_(mode),
        min_sample_seconds_(min_sample_seconds),
        copies_stay_(copies_stay) {}

  /// Calls `step` before each run of passes, the shortest time in which a sequence that does not end shows.
  void announce(std::function<void()> step) { step_ = std::move(step); }

  /// One sample; calibrates (and so warms up) the sequence at its first.
  Sample sample(TimedSequence& sequence);
  /// `count` samples, whatever ran before.
  std::vector<Sample> turn(TimedSequence& sequence, int count);
  /// `count` good samples, or `noisy`. Is not tried again after `retry_until`.
  SampleSeries series(TimedSequence& sequence, int count, std::chrono::steady_clock::time_point retry_until,
                      const Reference& reference = {});
  /// One pass with the time of each launch; warms up as a sample does.
  StampedPass stamped_pass(TimedSequence& sequence);
  /// What a pass takes on this machine undisturbed, microseconds: where the fastest two of several medians
  /// over a quarter of a second agree; after five seconds, whether they agree or not.
  double level(TimedSequence& sequence);

 private:
  class Series;
  void calibrate(TimedSequence& sequence);
  void settle(TimedSequence& sequence);
  int next_copy(const TimedSequence& sequence) const;
  void flush_caches();
  double run_passes(TimedSequence& sequence, int passes);

  backend::Executor& executor_;
  CacheMode mode_;
  double min_sample_seconds_;
  bool copies_stay_;
  std::function<void()> step_;
  std::int64_t passes_ = 0;  // of all sequences
};

}  // namespace fusetune::measure
