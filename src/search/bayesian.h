// Bayesian optimisation over whole plans: time those from which the most improvement is to be expected.
//
// The first plans are the reference plans, which users know the times of, and a few drawn uniformly. Then
// each round fits a Gaussian process to the logarithms of all times (search/plan_surrogate.h) and times the
// plans with the largest expected improvement over the fastest plan, as the process believes it: a plan that
// a lucky timing made the fastest is not chased. It ends when no plan is expected to improve by a noticeable
// share.
#pragma once

#include <set>
#include <vector>

#include "search/plan_strategy.h"
#include "search/plan_surrogate.h"
#include "search/random_source.h"

namespace fusetune::search {

class BayesianPlans : public PlanStrategy {
 public:
  BayesianPlans(const PlanSpace& space, std::uint64_t seed);
  std::vector<PlanCandidate> ask(int limit) override;
  void tell(const plan::FusionPlan& plan, const Trial& trial) override;
  std::int64_t predicted() const override;

 private:
  void first_round();
  void next_round();

  std::span<const plan::FusionPlan> plans_;
  double least_improvement_;  // of the logarithm, that is worth a timing
  RandomSource random_;
  PlanSurrogate surrogate_;
  std::vector<PlanSurrogate::Sample> samples_;
  std::set<plan::FusionPlan> asked_;
  std::vector<PlanCandidate> queue_;  // next one last
  int waiting_ = 0;                   // asked but not told
  bool begun_ = false, done_ = false;
};

}  // namespace fusetune::search
