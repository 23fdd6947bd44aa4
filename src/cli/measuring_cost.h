// What measuring a kernel takes beside measuring a whole plan: searches of kernels and searches of plans can
// then be given the same budget.
//
// A kernel is no cheaper than its time suggests: each candidate is checked against the reference, warmed up
// and timed beside another plan, whatever it takes itself.
#pragma once

#include <string>

#include "store/contents.h"

namespace fusetune::cli {

struct MeasuringCost {
  double kernel_s = 0, plan_s = 0;  // seconds by the clock in the mean, compilation left out
  std::string source;               // what that is known from
  /// Of a kernel, in trials of whole plans.
  double kernel_trials() const { return kernel_s / plan_s; }
};

/// From the searches in `contents` (of one problem, environment and cache mode) that timed kernels only, and
/// plans only. Without one of each: from what the samples must have lasted by the timing protocol. There must
/// be a kernel and a plan with a time.
MeasuringCost measuring_cost(const store::Contents& contents);

}  // namespace fusetune::cli
