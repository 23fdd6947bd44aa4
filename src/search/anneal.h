// Simulated annealing over the mask's bits: the research's baseline.
//
// From a plan the walk proposes one that differs in a bit. A faster one is always taken, one that is slower
// by the factor r with probability r^(-1/T): T falls geometrically over the budget from one that takes 10 %
// slower plans every third time to one that takes 0.5 % slower ones as rarely. The state is a canonical plan,
// so that bits without effect cost no trial.
#pragma once

#include <map>
#include <optional>
#include <set>

#include "search/plan_strategy.h"
#include "search/random_source.h"

namespace fusetune::search {

class Anneal : public PlanStrategy {
 public:
  Anneal(const PlanSpace& space, std::uint64_t seed);
  /// One plan: the next depends on its result.
  std::vector<PlanCandidate> ask(int limit) override;
  void tell(const plan::FusionPlan& plan, const Trial& trial) override;
  std::optional<std::int64_t> expected() const override;

 private:
  double temperature() const;
  plan::FusionPlan propose();
  plan::FusionPlan anywhere();
  void step_to(const plan::FusionPlan& plan, double time_us);

  std::span<const plan::FusionPlan> plans_;
  std::set<plan::FusionPlan> space_;
  std::int64_t budget_;
  RandomSource random_;
  std::map<plan::FusionPlan, double> times_;  // +infinity: failed
  std::optional<plan::FusionPlan> at_, waiting_;
};

}  // namespace fusetune::search
