// What a kernel takes at least by its arithmetic, at the highest rate that this search has seen.
#pragma once

#include <algorithm>

#include "search/space.h"

namespace fusetune::search {

class Roofline {
 public:
  /// A variant that takes `time_us`, > 0.
  void tell(const Work& work, double time_us) {
    if (!(work.flops > 0)) return;
    most_flops_per_us_ = std::max(most_flops_per_us_, work.flops / time_us);
  }
  /// No kernel that computes less than kHeadroom times as fast as the fastest one seen takes less than this;
  /// 0 before anything was seen. That none computes faster is an assumption: an instruction set has a peak,
  /// but nobody has measured it here.
  double least_us(const Work& work) const {
    return most_flops_per_us_ > 0 ? work.flops / (kHeadroom * most_flops_per_us_) : 0;
  }

  static constexpr double kHeadroom = 1.25;

 private:
  double most_flops_per_us_ = 0;
};

}  // namespace fusetune::search
