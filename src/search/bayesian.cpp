#include "search/bayesian.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "search/queue.h"
#include "search/selection.h"

namespace fusetune::search {
namespace {

constexpr std::size_t kDrawn = 6;  // of the first round, beside the reference plans
constexpr std::size_t kRound = 4;
constexpr double kLeastImprovement = 1e-5;  // without a budget

}  // namespace

BayesianPlans::BayesianPlans(const PlanSpace& space, std::uint64_t seed)
    : plans_(space.plans),
      least_improvement_(space.budget > 0 ? std::numeric_limits<double>::min() : kLeastImprovement),
      random_(seed) {}

void BayesianPlans::first_round() {
  for (const ReferencePlan& reference : reference_plans()) {
    if (std::find(plans_.begin(), plans_.end(), reference.plan) == plans_.end()) continue;
    if (asked_.insert(reference.plan).second) queue_.push_back({reference.plan, false});
  }
  std::vector<plan::FusionPlan> order(plans_.begin(), plans_.end());
  random_.shuffle(order);
  for (const plan::FusionPlan& plan : std::span(order).first(std::min(order.size(), kDrawn)))
    if (asked_.insert(plan).second) queue_.push_back({plan, true});
}

void BayesianPlans::next_round() {
  surrogate_.fit(samples_);
  double best = std::numeric_limits<double>::infinity();
  for (const PlanSurrogate::Sample& sample : samples_) best = std::min(best, surrogate_.mean(sample.plan));
  std::vector<double> gains;
  for (const plan::FusionPlan& plan : plans_) {
    if (asked_.contains(plan)) {
      gains.push_back(0);
    } else if (samples_.empty()) {  // where nothing ran yet, one plan is as good as another
      gains.push_back(1 + random_.unit());
    } else {
      gains.push_back(expected_improvement(surrogate_.believe(plan), best));
    }
  }
  for (const std::size_t place : most_promising(gains, least_improvement_, kRound)) {
    asked_.insert(plans_[place]);
    queue_.push_back({plans_[place], false});
  }
}

std::vector<PlanCandidate> BayesianPlans::ask(int limit) {
  if (queue_.empty() && waiting_ == 0 && !done_) {
    if (std::exchange(begun_, true)) {
      next_round();
    } else {
      first_round();
    }
    done_ = queue_.empty();
    random_.shuffle(queue_);  // what drifts meanwhile must not look like a merit of the order
  }
  std::vector<PlanCandidate> candidates = take_last(queue_, limit);
  waiting_ += static_cast<int>(candidates.size());
  return candidates;
}

void BayesianPlans::tell(const plan::FusionPlan& plan, const Trial& trial) {
  --waiting_;
  if (trial.ok) samples_.push_back({plan, std::log(trial.time_us)});
}

std::int64_t BayesianPlans::predicted() const {
  return samples_.empty() ? 0 : static_cast<std::int64_t>(plans_.size() - samples_.size());
}

}  // namespace fusetune::search
