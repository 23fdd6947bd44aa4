// The canary: a fixed piece of work, timed again after every candidate. When it takes longer or shorter than
// it did, the machine has changed (clock, load), and what was timed beside it says nothing.
#pragma once

#include <vector>

#include "backend/cpu/runner.h"
#include "measure/timing.h"

namespace fusetune::measure {

/// The canary may take this share more or less than it did at first.
inline constexpr double kCanaryBand = 0.10;

class Canary {
 public:
  explicit Canary(backend::cpu::Runner& runner);

  /// Median microseconds of a few samples that nobody interrupted, arithmetic and memory alike; 0 when there
  /// were too few of them to say anything.
  double time_us();
  static bool in_band(double time_us, double reference_us);

 private:
  Timer timer_;
  std::vector<float> memory_;  // each thread's share is larger than its second-level cache
  ft_args args_{};
  TimedSequence sequence_;
};

}  // namespace fusetune::measure
