// Internal to lower: a schedule space as it is collected, the same for every target.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "block/problem.h"
#include "lower/refused.h"
#include "plan/fusion_plan.h"

namespace fusetune::lower {

/// Distinct legal schedules of a variant: the default, and the default with some fields changed. Distinct
/// illegal ones go to `refused`, where that is not null.
template <class Schedule, class Target>
class ScheduleSet {
 public:
  ScheduleSet(const plan::SegmentVariant& variant, const block::Problem& problem, const Target& target,
              std::vector<Refused<Schedule>>* refused)
      : variant_(variant),
        problem_(problem),
        target_(target),
        refused_(refused),
        first_(default_schedule(variant, problem, target)) {
    add([](Schedule&) {});
  }

  template <class Change>
  void add(Change change) {
    Schedule s = first_;
    change(s);
    s = canonical(s, variant_, problem_);
    if (std::find(found_.begin(), found_.end(), s) != found_.end()) return;
    std::string reason = refuse(s, variant_, problem_, target_);
    if (reason.empty())
      found_.push_back(s);
    else if (refused_ != nullptr && !is_refused(s))
      refused_->push_back({s, std::move(reason)});
  }
  const plan::SegmentVariant& variant() const { return variant_; }
  const block::Problem& problem() const { return problem_; }
  const Target& target() const { return target_; }
  std::vector<Schedule> take() { return std::move(found_); }

 private:
  bool is_refused(const Schedule& s) const {
    return std::any_of(refused_->begin(), refused_->end(),
                       [&](const auto& one) { return one.schedule == s; });
  }

  const plan::SegmentVariant& variant_;
  const block::Problem& problem_;
  const Target& target_;
  std::vector<Refused<Schedule>>* refused_;
  Schedule first_;
  std::vector<Schedule> found_;
};

}  // namespace fusetune::lower
