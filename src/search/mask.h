// The research's pipeline: sample masks, time whole plans, fit a regressor and a classifier, prune by class,
// repeat.
//
// The first plans are a uniform sample. Then each round fits the model to all plans timed, drops those it
// puts into the slow class, and times the plans it expects to be fastest; one in eight is drawn uniformly
// from the whole space, so that a wrong model meets plans it did not choose. It ends when every plan of the
// fast class was timed, or when three rounds in a row found nothing faster.
#pragma once

#include <set>

#include "search/plan_strategy.h"
#include "search/random_source.h"

namespace fusetune::search {

class MaskPipeline : public PlanStrategy {
 public:
  MaskPipeline(const PlanSpace& space, std::uint64_t seed);
  std::vector<PlanCandidate> ask(int limit) override;
  void tell(const plan::FusionPlan& plan, const Trial& trial) override;
  std::int64_t pruned() const override;
  std::int64_t predicted() const override;

 private:
  void start_round();
  void sample(std::size_t count);
  void exploit(std::size_t count);
  std::vector<plan::FusionPlan> unasked() const;

  PlanSpace space_;
  RandomSource random_;
  std::vector<plan::FusionPlan> order_;  // the space in random order: uniform draws take the next one
  std::size_t drawn_ = 0;                // of order_
  std::set<plan::FusionPlan> asked_;
  std::vector<PlanCandidate> queue_;  // next one last
  std::set<plan::FusionPlan> uniform_;
  int waiting_ = 0;  // asked but not told
  std::vector<TimedPlan> timed_;
  double best_us_;                      // so far
  double best_of_last_us_;              // when the round began
  int idle_rounds_ = 0;                 // without a faster plan
  std::vector<plan::FusionPlan> slow_;  // by the model's class at the last fit; some were drawn since
  bool done_ = false;
};

}  // namespace fusetune::search
