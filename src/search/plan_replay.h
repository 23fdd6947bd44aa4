// Recorded times of whole plans in place of a device: plan strategies are tested and compared without one.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "search/plan_strategy.h"

namespace fusetune::search {

class PlanReplay {
 public:
  /// Of several records of one plan the fastest counts. Times must be finite and above 0, or it throws
  /// base::InternalError.
  explicit PlanReplay(std::span<const TimedPlan> recorded);

  /// What a strategy may ask for: the plans recorded, in ascending order.
  std::span<const plan::FusionPlan> plans() const { return plans_; }
  /// A failed trial for a plan that was not recorded.
  Trial measure(const plan::FusionPlan& plan) const;
  double best_us() const { return best_us_; }

 private:
  std::map<plan::FusionPlan, double> times_;
  std::vector<plan::FusionPlan> plans_;
  double best_us_;
};

/// A plan that was faster than all before it.
struct Improvement {
  double spent = 0;  // trials up to this one, it included; kernels count as their share of one
  plan::FusionPlan plan = plan::FusionPlan::unfused();
  double time_us = 0;
};

struct PlanReplayResult {
  plan::FusionPlan best = plan::FusionPlan::unfused();
  double best_us = 0;  // +infinity: no plan was timed
  std::int64_t trials = 0;
  /// How much slower than the recording's best: 0.01 is 1 %.
  double regret = 0;
  std::vector<Improvement> improvements = {};  // each slower than the next; the last one is `best`

  /// Takes a plan's time in.
  void tell(const plan::FusionPlan& plan, const Trial& trial, double spent);
};

/// Runs a strategy until it is done or has had `trials` plans timed. Throws base::InternalError where it asks
/// for none.
PlanReplayResult replay_plans(PlanStrategy& strategy, const PlanReplay& replay, std::int64_t trials);

}  // namespace fusetune::search
