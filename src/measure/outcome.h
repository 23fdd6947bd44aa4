// Outcome and Measurement: what became of a candidate. Only `ok` has a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fusetune::measure {

enum class Outcome : std::uint8_t {
  ok,
  noisy,    // more than a fifth of the samples dropped, or samples too different, three times
  illegal,  // a constraint refuses it, with the reason
  compile_failed,
  resource_limit,
  launch_failed,
  crashed,  // the worker died: signal or exit code in the message
  timeout,
  wrong_result,
  skipped,
};
std::string_view name(Outcome outcome);
/// Throws base::UsageError.
Outcome parse_outcome(std::string_view text);
/// It ran and its results are right, whether or not the machine was quiet enough for a time.
bool ran_right(Outcome outcome);

/// Robust summary of repeated samples, microseconds.
struct TimingSummary {
  double median_us = 0;
  double mad_us = 0;  // median absolute deviation
  double min_us = 0;
  int count = 0;
};

/// Result of checking and timing one candidate.
struct Measurement {
  Outcome outcome = Outcome::skipped;
  std::string message;             // why not ok; empty for ok
  TimingSummary time;              // ok only
  std::vector<double> samples_us;  // kept, in order; ok only
  int dropped = 0;                 // samples dropped: the machine took CPU time away, or changed its speed
  /// Samples are in units of a fixed plan that was timed beside them (see timing.h): what that plan takes,
  /// and how much longer it took here, in the median. 0 and 1: timed by itself.
  double reference_us = 0;
  double slowdown = 1;
  std::string device_uuid;  // which of the devices of its environment it ran on; empty: a CPU, or on none
  double norm_error = 0;    // ||out - ref|| / ||ref||, worst live-out tensor
  double worst_error = 0;   // worst element / largest magnitude in its row
};

}  // namespace fusetune::measure
