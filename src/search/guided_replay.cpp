#include "search/guided_replay.h"

#include <cmath>
#include <limits>

#include "base/error.h"
#include "search/plan_refinement.h"

namespace fusetune::search {
namespace {

/// What is spent, and what may be.
class Purse {
 public:
  explicit Purse(double limit) : limit_(limit) {}
  bool affords(double cost) const { return spent_ + cost <= limit_; }
  void pay(double cost) { spent_ += cost; }
  void set_limit(double limit) { limit_ = limit; }
  double spent() const { return spent_; }

 private:
  double limit_, spent_ = 0;
};

Incumbents time_kernels(const Replay& kernels, const GuidedReplayOptions& options, Purse& purse,
                        GuidedReplayResult& result) {
  const auto strategy =
      make_strategy("guided", kernels.space(), options.seed, options.model, {}, options.priors);
  Incumbents best;
  while (purse.affords(options.kernel_cost)) {
    const std::vector<Candidate> asked = strategy->ask(1);
    if (asked.empty()) break;
    const Trial trial = kernels.measure(asked.front());
    purse.pay(options.kernel_cost);
    ++result.kernels;
    strategy->tell(asked.front(), trial);
    best.tell(asked.front(), trial);
  }
  const auto tests = strategy->prior_tests();
  result.by_prior = !tests.empty() && tests.back().trusted;
  return best;
}

void time_plans(PlanRefinement& refinement, const PlanReplay& plans, Purse& purse, PlanReplayResult& result) {
  while (purse.affords(1)) {
    const std::vector<PlanCandidate> asked = refinement.ask(1);
    if (asked.empty()) return;
    const Trial trial = plans.measure(asked.front().plan);
    purse.pay(1);
    ++result.trials;
    result.tell(asked.front().plan, trial, purse.spent());
    refinement.tell(asked.front().plan, trial);
  }
}

}  // namespace

GuidedReplayResult replay_guided(const Replay& kernels, const PlanReplay& plans,
                                 const GuidedReplayOptions& options) {
  if (!std::isfinite(options.kernel_cost) || options.kernel_cost <= 0)
    throw base::InternalError("a kernel's cost must be finite and above 0");
  const double budget = options.budget.value_or(std::numeric_limits<double>::infinity());
  GuidedReplayResult result;
  result.plans.best_us = std::numeric_limits<double>::infinity();
  Purse purse(budget / (1 + kPlanShare));
  const Incumbents best = time_kernels(kernels, options, purse, result);
  purse.set_limit(budget);
  PlanRefinement refinement(best.costs(), options.finalists, options.seed, std::nullopt, plans.plans());
  time_plans(refinement, plans, purse, result.plans);
  result.spent = purse.spent();
  result.plans.regret = result.plans.best_us / plans.best_us() - 1;
  return result;
}

}  // namespace fusetune::search
