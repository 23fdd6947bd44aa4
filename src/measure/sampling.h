// How one sample of a time is taken: the core of the one timer of fusetune. measure::Timer times launch
// sequences with it, and an exported bundle has this very file for its verify program: it needs C++17 and
// POSIX, nothing else of fusetune.
//
// A sample is a number of passes over what is timed, as many as last at least so long; how many,
// calibrated_passes() finds out once.
//
// A sample from which the operating system took CPU time is marked interrupted: the process's involuntary
// context switches rose *and* its threads together lost more than kStolenShare of their time. The second
// condition keeps long samples usable: a housekeeping task that takes 20 us out of 80 ms is no disturbance,
// while in a sample of 1 ms nearly every switch counts. On a virtual machine the loss includes what the host
// takes, which hits all long samples alike.
#pragma once

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <ctime>
#include <functional>
#include <vector>

namespace fusetune::measure {

/// Share of the threads' CPU time that may be lost to other processes in a sample.
inline constexpr double kStolenShare = 0.02;
inline constexpr double kWarmUpSeconds = 5e-3;  // clocks and branch predictors settle
inline constexpr int kMaximumPasses = 1 << 20;
inline constexpr double kPassesHeadroom = 1.1;  // a slightly faster sample still lasts long enough

/// Runs `passes` passes back to back and returns the seconds of all of them, a positive number.
using Passes = std::function<double(int passes)>;

struct Sample {
  double seconds = 0;        // per pass
  bool interrupted = false;  // the machine took CPU time away while it ran: not to be used
};

/// What the operating system says about this process: all threads together.
struct ProcessTimes {
  long involuntary_switches;
  double cpu_seconds;
  std::chrono::steady_clock::time_point when;

  static ProcessTimes now() {
    rusage usage{};
    timespec cpu{};
    getrusage(RUSAGE_SELF, &usage);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    return {usage.ru_nivcsw, static_cast<double>(cpu.tv_sec) + 1e-9 * static_cast<double>(cpu.tv_nsec),
            std::chrono::steady_clock::now()};
  }
};

/// Whether other processes disturbed this one in between, which computed on `threads` threads.
inline bool was_interrupted(const ProcessTimes& before, const ProcessTimes& after, int threads) {
  if (after.involuntary_switches == before.involuntary_switches) return false;
  const double wall = std::chrono::duration<double>(after.when - before.when).count() * threads;
  return wall - (after.cpu_seconds - before.cpu_seconds) > kStolenShare * wall;
}

/// Whether `interrupted` samples are too many beside `samples`, those taken or to be taken: more than a
/// fifth.
inline bool is_noisy(int interrupted, int samples) { return 5 * interrupted > samples; }

/// How many passes last at least `least_seconds`; kMaximumPasses where no number does. Warms up at the same
/// time: the first samples must not be slower because they came first.
inline int calibrated_passes(const Passes& run, double least_seconds) {
  double elapsed = 0, fastest = run(1);
  for (int pass = 1; pass < 3 || (elapsed < kWarmUpSeconds && pass < kMaximumPasses); ++pass) {
    const double seconds = run(1);
    elapsed += seconds;
    fastest = std::min(fastest, seconds);
  }
  // A pass alone includes the start of the clock, so that many together may fall short; then a few more.
  const auto passes_for = [least_seconds](double seconds_per_pass) {
    const double wanted = kPassesHeadroom * least_seconds / seconds_per_pass;
    return static_cast<int>(std::min<double>(kMaximumPasses, std::ceil(wanted)));
  };
  int passes = std::max(1, passes_for(fastest));
  for (double seconds = run(passes); seconds < least_seconds && passes < kMaximumPasses;
       seconds = run(passes)) {
    passes = std::max(passes + 1, passes_for(seconds / passes));
  }
  return passes;
}

/// One sample of `passes` passes that compute on `threads` threads.
inline Sample take_sample(const Passes& run, int passes, int threads) {
  const ProcessTimes before = ProcessTimes::now();
  const double seconds = run(passes);
  const ProcessTimes after = ProcessTimes::now();
  return {seconds / passes, was_interrupted(before, after, threads)};
}

/// Middle one of at least one value; the mean of the two middle ones for an even count.
inline double middle_value(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*std::max_element(values.begin(), middle) + *middle) / 2;
}

}  // namespace fusetune::measure
