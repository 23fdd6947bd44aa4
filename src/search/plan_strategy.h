// Strategies that time whole plans, as the research does it: the command asks for plans, times them (or
// replays a recording) and tells the result. They see no device and no schedule.
//
// To add one: a file in this folder and a row in plan_strategy.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plan/fusion_plan.h"
#include "search/space.h"

namespace fusetune::search {

/// A plan to time next.
struct PlanCandidate {
  plan::FusionPlan plan;
  /// Drawn from the whole space without looking at any result: only such plans say what share of the space is
  /// how fast.
  bool uniform = false;
  bool operator==(const PlanCandidate&) const = default;
};

/// A plan that ran right, with its time.
struct TimedPlan {
  plan::FusionPlan plan;
  double time_us = 0;
  bool uniform = false;
  double first_half_us = 0, second_half_us = 0;  // as of Trial
};

struct PlanPrediction {
  double time_us = 0;
  bool high = false;  // of the class of fast plans
};

/// What a strategy learns from and asks; search/plan_model.h has the one that is used.
class PlanModel {
 public:
  virtual ~PlanModel() = default;
  /// Learns from all plans timed so far. Empty, or why there is no model (yet): the last one stays.
  virtual std::string fit(std::span<const TimedPlan> plans) = 0;
  /// True after a fit() that worked, or where it began with a model.
  virtual bool ready() const = 0;
  /// One for each plan. Only when ready().
  virtual std::vector<PlanPrediction> predict(std::span<const plan::FusionPlan> plans) const = 0;
};

/// What plan strategies choose from and work with.
struct PlanSpace {
  std::span<const plan::FusionPlan> plans;  // must outlive the strategy
  /// Plans that will be timed at most; 0: as many as the strategy likes.
  std::int64_t budget = 0;
  PlanModel* model = nullptr;  // only where a strategy has `needs_model`
};

class PlanStrategy {
 public:
  virtual ~PlanStrategy() = default;
  /// Up to `limit` plans to time next, each at most once over the strategy's life. Empty once it is done, or
  /// while it waits for results of plans it handed out.
  virtual std::vector<PlanCandidate> ask(int limit) = 0;
  /// The result of a plan that ask() gave; every one must be told, failed ones too.
  virtual void tell(const plan::FusionPlan& plan, const Trial& trial) = 0;
  /// Plans it expects to ask for in all, those told included, for the progress display; nullopt: not known.
  virtual std::optional<std::int64_t> expected() const { return std::nullopt; }
  /// Plans that its model put into the slow class at its last fit and that were not asked for.
  virtual std::int64_t pruned() const { return 0; }
  /// Plans that have no time but a prediction from those that do.
  virtual std::int64_t predicted() const { return 0; }
};

struct PlanStrategyInfo {
  std::string_view name;
  std::string_view summary;
  bool needs_model = false;
  std::unique_ptr<PlanStrategy> (*make)(const PlanSpace& space, std::uint64_t seed);
};

std::span<const PlanStrategyInfo> plan_strategies();
/// What `guided` does where its budget is less than one time of each segment variant: whole plans from the
/// start.
inline constexpr std::string_view kSmallBudgetStrategy = "bayesian";
/// nullptr: there is no such plan strategy.
const PlanStrategyInfo* find_plan_strategy(std::string_view name);

}  // namespace fusetune::search
