// When a search ends before its strategy runs out of candidates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace fusetune::search {

struct StopConditions {
  std::optional<std::int64_t> trials;      // candidates measured (those known from the store do not count)
  std::optional<double> seconds;           // of searching
  std::optional<std::int64_t> early_stop;  // candidates in a row that did not improve the best plan's sum
  /// What earlier stages of the same search had of the first two.
  std::int64_t spent_trials = 0;
  double spent_s = 0;

  /// Throws base::UsageError for zero, negative or non-finite limits: a search that may do nothing is a
  /// mistake.
  void check() const;
};

/// Follows a search and says when to stop. Time comes from the caller, so that tests need no clock.
class StopRule {
 public:
  explicit StopRule(const StopConditions& conditions);
  /// One more candidate was measured; `best_sum_us` is the cheapest complete plan's sum now, +infinity: none
  /// yet.
  void measured(double best_sum_us);
  /// Empty: go on. Else the reason, for the summary.
  std::string reached(double elapsed_seconds) const;
  /// Whether another candidate may begin while `measuring` others have no result yet.
  bool may_begin(double elapsed_seconds, std::size_t measuring) const;
  std::int64_t trials() const { return trials_; }
  /// Candidates that --trials still allows; nullopt: it was not given.
  std::optional<std::int64_t> trials_left() const;
  /// Seconds that --time-limit still allows, below 0 when it has passed; nullopt: it was not given.
  std::optional<double> seconds_left(double elapsed_seconds) const;

 private:
  StopConditions conditions_;
  std::int64_t trials_ = 0;
  std::int64_t without_improvement_ = 0;
  double best_;
};

}  // namespace fusetune::search
