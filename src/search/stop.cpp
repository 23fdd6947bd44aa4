#include "search/stop.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/number.h"

namespace fusetune::search {

void StopConditions::check() const {
  if (trials && *trials <= 0) {
    throw base::UsageError("--trials " + std::to_string(*trials) +
                           ": expected a whole number of candidates, 1 or more");
  }
  if (seconds && !(std::isfinite(*seconds) && *seconds > 0)) {
    throw base::UsageError("--time-limit " + base::format_shortest(*seconds) +
                           ": expected seconds, more than 0");
  }
  if (early_stop && *early_stop <= 0) {
    throw base::UsageError("--early-stop " + std::to_string(*early_stop) +
                           ": expected a whole number of candidates, 1 or more");
  }
}

StopRule::StopRule(const StopConditions& conditions)
    : conditions_(conditions), best_(std::numeric_limits<double>::infinity()) {}

void StopRule::measured(double best_sum_us) {
  ++trials_;
  if (best_sum_us < best_) {
    best_ = best_sum_us;
    without_improvement_ = 0;
  } else if (std::isfinite(best_)) {
    // Before there is a complete plan nothing can improve: those candidates are what makes one.
    ++without_improvement_;
  }
}

std::string StopRule::reached(double elapsed_seconds) const {
  if (trials_left() == 0) {
    return "--trials " + std::to_string(*conditions_.trials) + " reached";
  }
  if (conditions_.seconds && conditions_.spent_s + elapsed_seconds >= *conditions_.seconds) {
    return "--time-limit " + base::format_shortest(*conditions_.seconds) + " s reached";
  }
  if (conditions_.early_stop && without_improvement_ >= *conditions_.early_stop) {
    return "--early-stop: no improvement over " + std::to_string(*conditions_.early_stop) + " candidates";
  }
  return {};
}

bool StopRule::may_begin(double elapsed_seconds, std::size_t measuring) const {
  const std::optional<std::int64_t> left = trials_left();
  return reached(elapsed_seconds).empty() && (!left || *left > static_cast<std::int64_t>(measuring));
}

std::optional<std::int64_t> StopRule::trials_left() const {
  if (!conditions_.trials) return std::nullopt;
  return std::max<std::int64_t>(0, *conditions_.trials - conditions_.spent_trials - trials_);
}

std::optional<double> StopRule::seconds_left(double elapsed_seconds) const {
  if (!conditions_.seconds) return std::nullopt;
  return *conditions_.seconds - conditions_.spent_s - elapsed_seconds;
}

}  // namespace fusetune::search
