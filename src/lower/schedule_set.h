// Internal to lower: a schedule space as it is collected, the same for every target.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "block/problem.h"
#include "plan/fusion_plan.h"

namespace fusetune::lower {

/// Distinct legal schedules of a variant: the default, and the default with some fields changed.
template <class Schedule, class Target>
class ScheduleSet {
 public:
  ScheduleSet(const plan::SegmentVariant& variant, const block::Problem& problem, const Target& target)
      : variant_(variant),
        problem_(problem),
        target_(target),
        first_(default_schedule(variant, problem, target)) {
    add([](Schedule&) {});
  }

  template <class Change>
  void add(Change change) {
    Schedule s = first_;
    change(s);
    s = canonical(s, variant_, problem_);
    const bool legal = refuse(s, variant_, problem_, target_).empty();
    if (legal && std::find(found_.begin(), found_.end(), s) == found_.end()) found_.push_back(s);
  }
  const plan::SegmentVariant& variant() const { return variant_; }
  const block::Problem& problem() const { return problem_; }
  const Target& target() const { return target_; }
  std::vector<Schedule> take() { return std::move(found_); }

 private:
  const plan::SegmentVariant& variant_;
  const block::Problem& problem_;
  const Target& target_;
  Schedule first_;
  std::vector<Schedule> found_;
};

}  // namespace fusetune::lower
