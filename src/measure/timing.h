// Times of launch sequences: search, bench and profile all take them with this Timer.
//
// How a sample is taken, and when it counts as interrupted, is in sampling.h. Where the caches stand when a
// pass begins is the cache mode's business:
//
//   model  passes take the weights from rotating copies, so that they come from where a model of many layers
//          would find them; activations are as warm as the previous pass left them
//   warm   one copy of everything, pass after pass
//   cold   one pass per sample, after a stream over a buffer of four times the last-level cache
//
// A shared machine's speed changes by a sixth from second to second and by a half now and then, without a
// trace in the scheduler's figures, for all kernels alike. So candidates are timed beside a reference, a
// fixed plan of the same problem that takes about as much of the machine's time:
//
//     ref  c c c  ref  c c c  ref ...      groups of candidate samples that last about as long as a
//     reference's
//
// A sample counts as (its time) / (mean of the references around it) x (what the reference takes, a constant
// of the search), so that times taken minutes or sessions apart compare. Where the two references differ by
// more than kReferenceBand, the machine changed in between: that group is taken again. What the references do
// not show, the samples do: those that differ among themselves by more than kMostSpread are taken again, all
// of them, and have no time where they never agree.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
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
  int passes = 0;     // per sample; 0: not calibrated yet
  int next_copy = 0;  // the rotation goes on from sample to sample
};

struct SampleSeries {
  Outcome outcome = Outcome::skipped;  // ok or noisy
  std::string message;                 // noisy: why
  std::vector<double> samples_us;      // per pass, in order, dropped ones left out
  int dropped = 0;                     // of the attempt that counted
  double slowdown = 1;                 // median of the references beside it / what the reference takes
};

/// What candidates are timed beside.
struct Reference {
  TimedSequence* sequence = nullptr;  // none: samples are what the clock says
  double time_us = 0;                 // what a pass takes by agreement
};

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
  /// The executor must outlive the timer.
  Timer(backend::Executor& executor, CacheMode mode, double min_sample_seconds)
      : executor_(executor), mode_(mode), min_sample_seconds_(min_sample_seconds) {}

  /// One sample; calibrates (and so warms up) the sequence at its first.
  Sample sample(TimedSequence& sequence);
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
  void flush_caches();
  double run_passes(TimedSequence& sequence, int passes);

  backend::Executor& executor_;
  CacheMode mode_;
  double min_sample_seconds_;
};

}  // namespace fusetune::measure
