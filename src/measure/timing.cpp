#include "measure/timing.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>
#include <thread>

#include "base/error.h"
#include "block/rounding.h"
#include "measure/statistics.h"

namespace fusetune::measure {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kLeastFlushBytes = 128
                                          << 20;  // also where the size of the last-level cache is unknown

// A level is the median of a window, where the fastest two windows agree.
constexpr auto kLevelWindow = std::chrono::milliseconds(250);
constexpr std::size_t kLeastWindowSamples = 3, kLeastWindows = 4;
constexpr auto kMostLevelTime = std::chrono::seconds(5);
constexpr double kLevelAgreement = 0.03;

bool is_settled(std::vector<double> levels) {
  if (levels.size() < kLeastWindows) return false;
  std::partial_sort(levels.begin(), levels.begin() + 2, levels.end());
  return levels[1] <= (1 + kLevelAgreement) * levels[0];
}

}  // namespace

std::int64_t cache_flush_bytes(std::int64_t cache_bytes) {
  return std::max(4 * cache_bytes, kLeastFlushBytes);
}

double least_series_seconds(int samples, double sample_s, double reference_s) {
  if (reference_s == 0) return (1 + samples) * sample_s;
  const double turn = std::max<double>(kLeastGroup, std::ceil(kReferenceSamples * reference_s / sample_s));
  const double turns = std::max(1.0, std::floor(samples / turn));
  return (turns + samples) * sample_s + (turns + 1) * (1 + kReferenceSamples) * reference_s;
}

std::int64_t rotation_bytes(CacheMode mode, const block::Problem& problem, std::int64_t cache_bytes) {
  if (mode != CacheMode::model) return 0;
  std::int64_t block_bytes = 0;
  for (int weight = 0; weight < block::kWeightCount; ++weight) {
    const auto [rows, columns] = problem.shape(static_cast<block::Weight>(weight));
    block_bytes += rows * columns * block::element_size(problem.dtype);
  }
  return std::min(problem.layers * block_bytes, cache_flush_bytes(cache_bytes));
}

/// In cache mode cold.
void Timer::flush_caches() {
  if (mode_ == CacheMode::cold) executor_.flush_caches();
}

int Timer::next_copy(const TimedSequence& sequence) const {
  return static_cast<int>(passes_ % sequence.copies);
}

/// Runs the passes back to back; seconds of all of them.
double Timer::run_passes(TimedSequence& sequence, int passes) {
  if (step_) step_();
  flush_caches();
  const double seconds = sequence.kernels->run_timed(next_copy(sequence), passes);
  passes_ += passes;
  if (!std::isfinite(seconds) || seconds <= 0) {
    throw base::InternalError("the clock gave a time that is not positive for a launch sequence");
  }
  return seconds;
}

/// Finds how many passes a sample takes; in cache mode cold that is one, whatever it lasts.
void Timer::calibrate(TimedSequence& sequence) {
  if (sequence.kernels == nullptr) throw base::InternalError("timing a sequence without launches");
  if (sequence.prepare) sequence.prepare();
  const auto run = [&](int passes) { return run_passes(sequence, passes); };
  if (mode_ == CacheMode::cold) {
    run(1);
    sequence.passes = 1;
  } else {
    sequence.passes = calibrated_passes(run, min_sample_seconds_);
  }
}

Sample Timer::sample(TimedSequence& sequence) {
  if (sequence.passes == 0) calibrate(sequence);
  if (sequence.prepare) sequence.prepare();
  const auto run = [&](int passes) { return run_passes(sequence, passes); };
  return take_sample(run, sequence.passes, executor_.threads());
}

/// Runs until the caches are as this sequence leaves them: all copies once, where they stay in the cache. By
/// whole samples: a GPU has them prepared as graphs.
void Timer::settle(TimedSequence& sequence) {
  if (sequence.passes == 0) calibrate(sequence);
  if (mode_ == CacheMode::cold) return;
  const int needed = copies_stay_ ? sequence.copies : 1;
  for (int passes = 0; passes < needed; passes += sequence.passes) run_passes(sequence, sequence.passes);
}

std::vector<Sample> Timer::turn(TimedSequence& sequence, int count) {
  settle(sequence);
  std::vector<Sample> samples;
  for (int i = 0; i < count; ++i) samples.push_back(sample(sequence));
  return samples;
}

StampedPass Timer::stamped_pass(TimedSequence& sequence) {
  if (sequence.passes == 0) calibrate(sequence);
  if (step_) step_();
  flush_caches();
  StampedPass pass;
  const ProcessTimes before = ProcessTimes::now();
  pass.run = sequence.kernels->run_stamped(next_copy(sequence));
  pass.interrupted = was_interrupted(before, ProcessTimes::now(), executor_.threads());
  ++passes_;
  return pass;
}

/// One attempt at a series: groups of samples, each between two references.
class Timer::Series {
 public:
  Series(Timer& timer, TimedSequence& sequence, int count, const Reference& reference)
      : timer_(timer), sequence_(sequence), reference_(reference), count_(count) {}

  SampleSeries run() {
    double before = time_reference();
    while (static_cast<int>(taken_.samples_us.size()) < count_ && !too_often_interrupted()) {
      std::vector<double> group = take_group();
      if (sequence_.inspect) sequence_.inspect();
      const double after = time_reference();
      keep(std::move(group), before, after);
      before = after;
    }
    taken_.message = find_noise();
    taken_.outcome = taken_.message.empty() ? Outcome::ok : Outcome::noisy;
    taken_.dropped = interrupted_ + unsteady_;
    if (!references_us_.empty()) taken_.slowdown = median(references_us_) / reference_.time_us;
    return std::move(taken_);
  }

 private:
  /// References count as well.
  bool too_often_interrupted() const {
    return is_noisy(interrupted_, count_ + static_cast<int>(references_us_.size()));
  }

  /// Why these samples make no time; empty: they do.
  std::string find_noise() const {
    if (too_often_interrupted())
      return "other processes took CPU time from more than a fifth of its and its reference's samples";
    const TimingSummary time = summarize(taken_.samples_us);
    if (is_steady(time)) return {};
    return fmt::format(
        "the machine was not steady: its samples deviate from their median by {:.0f} %, at most {:.0f} % "
        "make a "
        "time",
        100 * time.mad_us / time.median_us, 100 * kMostSpread);
  }

  /// Microseconds of a pass, the mean of a turn; 0 without a reference. An interrupted sample is taken again
  /// and counts as dropped.
  double time_reference() {
    if (reference_.sequence == nullptr) return 0;
    timer_.settle(*reference_.sequence);
    double sum = 0;
    for (int good = 0; good < kReferenceSamples;) {
      const Sample sample = timer_.sample(*reference_.sequence);
      if (sample.interrupted) {
        ++interrupted_;
        if (too_often_interrupted()) return sample.seconds * 1e6;  // the series is noisy and ends
        continue;
      }
      references_us_.push_back(sample.seconds * 1e6);
      sum += sample.seconds;
      ++good;
    }
    reference_seconds_ = sum * reference_.sequence->passes;
    return 1e6 * sum / kReferenceSamples;
  }

  /// Good samples, a turn of them. Without a reference: all.
  std::vector<double> take_group() {
    std::vector<double> group;
    const auto left = static_cast<std::size_t>(count_) - taken_.samples_us.size();
    timer_.settle(sequence_);
    for (double seconds = 0; group.size() < left && !too_often_interrupted();) {
      const Sample sample = timer_.sample(sequence_);
      if (sample.interrupted) {
        ++interrupted_;
        continue;
      }
      group.push_back(sample.seconds * 1e6);
      seconds += sample.seconds * sequence_.passes;
      const bool is_turn = group.size() >= kLeastGroup && seconds >= reference_seconds_;
      const bool leaves_a_turn = left - group.size() >= kLeastGroup;
      if (reference_.sequence != nullptr && is_turn && leaves_a_turn) break;
    }
    return group;
  }

  void keep(std::vector<double> group, double before_us, double after_us) {
    if (reference_.sequence == nullptr) {
      taken_.samples_us = std::move(group);
      return;
    }
    const bool steady = std::max(before_us, after_us) <= (1 + kReferenceBand) * std::min(before_us, after_us);
    if (!steady && unsteady_ < count_) {
      unsteady_ += static_cast<int>(group.size());
      return;
    }
    const double scale = reference_.time_us / ((before_us + after_us) / 2);
    for (const double sample : group) taken_.samples_us.push_back(sample * scale);
  }

  Timer& timer_;
  TimedSequence& sequence_;
  const Reference& reference_;
  int count_;
  SampleSeries taken_;
  std::vector<double> references_us_;
  double reference_seconds_ = 0;  // of the last reference's samples, all passes
  int interrupted_ = 0, unsteady_ = 0;
};

SampleSeries Timer::series(TimedSequence& sequence, int count, Clock::time_point retry_until,
                           const Reference& reference) {
  SampleSeries series;
  for (int attempt = 0; attempt < kSeriesAttempts; ++attempt) {
    // A disturbance often passes: wait a little longer each time.
    const auto pause = std::chrono::milliseconds(50 << (2 * attempt));
    if (attempt > 0 && Clock::now() + pause > retry_until) break;
    if (attempt > 0) std::this_thread::sleep_for(pause);
    series = Series(*this, sequence, count, reference).run();
    if (series.outcome == Outcome::ok) break;
  }
  return series;
}

double Timer::level(TimedSequence& sequence) {
  std::vector<double> levels;
  const auto latest = Clock::now() + kMostLevelTime;
  while (!is_settled(levels) && (levels.size() < 2 || Clock::now() < latest)) {
    const auto end = Clock::now() + kLevelWindow;
    std::vector<double> samples_us;
    while (samples_us.size() < kLeastWindowSamples || Clock::now() < end)
      samples_us.push_back(sample(sequence).seconds * 1e6);
    levels.push_back(median(samples_us));
  }
  std::partial_sort(levels.begin(), levels.begin() + 2, levels.end());
  return (levels[0] + levels[1]) / 2;
}

}  // namespace fusetune::measure
