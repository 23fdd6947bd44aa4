#include "measure/timing.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>

#include "base/error.h"
#include "measure/statistics.h"

namespace fusetune::measure {
namespace {

using backend::cpu::Launch;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t kLeastFlushBytes = 128
                                          << 20;  // also where the size of the last-level cache is unknown

/// Reads its share of a buffer: scratch is the buffer, scratch_stride the bytes of one thread.
void stream_over(const ft_args* args, int thread, int /*threads*/, ft_barrier* /*barrier*/) {
  const char* begin = args->scratch + thread * args->scratch_stride;
  long sum = 0;
  for (long offset = 0; offset < args->scratch_stride; offset += 64) sum += begin[offset];
  __asm__ volatile("" : : "r"(sum));
}

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

std::int64_t cache_flush_bytes(std::int64_t l3_bytes) { return std::max(4 * l3_bytes, kLeastFlushBytes); }

std::int64_t rotation_bytes(CacheMode mode, const block::Problem& problem, std::int64_t l3_bytes) {
  if (mode != CacheMode::model) return 0;
  std::int64_t block_bytes = 0;
  for (int weight = 0; weight < block::kWeightCount; ++weight) {
    const auto [rows, columns] = problem.shape(static_cast<block::Weight>(weight));
    block_bytes += rows * columns * static_cast<std::int64_t>(sizeof(float));
  }
  return std::min(problem.layers * block_bytes, cache_flush_bytes(l3_bytes));
}

struct Timer::FlushBuffer {
  FlushBuffer(std::int64_t bytes, int threads) : memory(static_cast<std::size_t>(bytes)) {
    // Written once: pages never written are all the same page of zeros, which evicts nothing.
    std::memset(memory.data(), 1, memory.size());
    args.scratch = memory.data();
    args.scratch_stride = bytes / threads / 64 * 64;
  }

  std::vector<char> memory;
  ft_args args{};
};

Timer::Timer(backend::cpu::Runner& runner, CacheMode mode, double min_sample_seconds,
             std::int64_t flush_bytes)
    : runner_(runner), mode_(mode), min_sample_seconds_(min_sample_seconds) {
  if (mode == CacheMode::cold) flush_ = std::make_unique<FlushBuffer>(flush_bytes, runner.threads());
}

Timer::~Timer() = default;

/// Adds the launches of a pass with the next copy.
void Timer::next_copy(TimedSequence& sequence) {
  const std::vector<Launch>& copy = sequence.copies[sequence.next_copy];
  launches_.insert(launches_.end(), copy.begin(), copy.end());
  sequence.next_copy = (sequence.next_copy + 1) % sequence.copies.size();
}

/// In cache mode cold.
void Timer::flush_caches() {
  if (flush_) runner_.run(std::array{Launch{stream_over, &flush_->args}});
}

/// Runs the passes back to back; seconds of all of them.
double Timer::run_passes(TimedSequence& sequence, int passes) {
  launches_.clear();
  for (int pass = 0; pass < passes; ++pass) next_copy(sequence);
  flush_caches();
  const double seconds = runner_.run_timed(launches_);
  if (!std::isfinite(seconds) || seconds <= 0) {
    throw base::InternalError("the clock gave a time that is not positive for a launch sequence");
  }
  return seconds;
}

/// Finds how many passes a sample takes; in cache mode cold that is one, whatever it lasts.
void Timer::calibrate(TimedSequence& sequence) {
  if (sequence.copies.empty()) throw base::InternalError("timing a sequence without launches");
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
  return take_sample(run, sequence.passes, runner_.threads());
}

StampedPass Timer::stamped_pass(TimedSequence& sequence) {
  if (sequence.passes == 0) calibrate(sequence);
  launches_.clear();
  next_copy(sequence);
  flush_caches();
  StampedPass pass;
  pass.times.resize(launches_.size() + 1);
  const ProcessTimes before = ProcessTimes::now();
  runner_.run_stamped(launches_, pass.times);
  pass.interrupted = was_interrupted(before, ProcessTimes::now(), runner_.threads());
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
    taken_.outcome = too_often_interrupted() ? Outcome::noisy : Outcome::ok;
    taken_.dropped = interrupted_ + unsteady_;
    if (!references_us_.empty()) taken_.slowdown = median(references_us_) / reference_.time_us;
    return std::move(taken_);
  }

 private:
  /// References count as well.
  bool too_often_interrupted() const {
    return is_noisy(interrupted_, count_ + static_cast<int>(references_us_.size()));
  }

  /// Microseconds of a pass; 0 without a reference. An interrupted one is taken again and counts as dropped.
  double time_reference() {
    if (reference_.sequence == nullptr) return 0;
    Sample sample = timer_.sample(*reference_.sequence);
    for (; sample.interrupted; sample = timer_.sample(*reference_.sequence)) {
      ++interrupted_;
      if (too_often_interrupted()) return sample.seconds * 1e6;  // the series is noisy and ends
    }
    reference_seconds_ = sample.seconds * reference_.sequence->passes;
    references_us_.push_back(sample.seconds * 1e6);
    return references_us_.back();
  }

  /// Good samples, for about as long as a reference sample takes. Without a reference: all of them.
  std::vector<double> take_group() {
    std::vector<double> group;
    const auto left = static_cast<std::size_t>(count_) - taken_.samples_us.size();
    for (double seconds = 0; group.size() < left && !too_often_interrupted();) {
      const Sample sample = timer_.sample(sequence_);
      if (sample.interrupted) {
        ++interrupted_;
        continue;
      }
      group.push_back(sample.seconds * 1e6);
      seconds += sample.seconds * sequence_.passes;
      if (reference_.sequence != nullptr && seconds >= reference_seconds_) break;
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
  double reference_seconds_ = 0;  // of the last reference sample, all passes
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
