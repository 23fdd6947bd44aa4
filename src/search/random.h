// The baseline of all baselines: plans in random order, each equally likely.
#pragma once

#include "search/plan_strategy.h"

namespace fusetune::search {

class RandomPlans : public PlanStrategy {
 public:
  RandomPlans(const PlanSpace& space, std::uint64_t seed);
  std::vector<PlanCandidate> ask(int limit) override;
  void tell(const plan::FusionPlan& /*plan*/, const Trial& /*trial*/) override {}
  std::optional<std::int64_t> expected() const override { return plans_; }

 private:
  std::int64_t plans_;
  std::vector<plan::FusionPlan> left_;  // next one last
};

}  // namespace fusetune::search
