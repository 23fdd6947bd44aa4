// What a kernel takes by its arithmetic and its bytes, in the rates that this search has seen: a prior for
// variants that nobody timed, and a lower limit.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "model/features.h"
#include "search/space.h"

namespace fusetune::search {

class Roofline {
 public:
  /// A variant that takes `time_us`, > 0.
  void tell(const Work& work, double time_us) {
    if (!(work.flops > 0)) return;
    most_flops_per_us_ = std::max(most_flops_per_us_, work.flops / time_us);
    us_per_work_.push_back(time_us / model::work_of(work.flops, work.bytes));
  }
  /// No kernel that computes less than kHeadroom times as fast as the fastest one seen takes less than this;
  /// 0 before anything was seen. That none computes faster is an assumption: an instruction set has a peak,
  /// but nobody has measured it here.
  double least_us(const Work& work) const {
    return most_flops_per_us_ > 0 ? work.flops / (kHeadroom * most_flops_per_us_) : 0;
  }
  /// The typical time of so much work, 0: nothing was seen.
  double expected_us(const Work& work) const {
    if (us_per_work_.empty()) return 0;
    std::vector<double> rates = us_per_work_;
    const auto middle = rates.begin() + static_cast<std::ptrdiff_t>(rates.size() / 2);
    std::nth_element(rates.begin(), middle, rates.end());
    return *middle * model::work_of(work.flops, work.bytes);
  }

  static constexpr double kHeadroom = 1.25;

 private:
  double most_flops_per_us_ = 0;
  std::vector<double> us_per_work_;
};

}  // namespace fusetune::search
