// From the sums of segments to plans worth comparing: some are timed whole, the others predicted from them.
//
// A whole plan takes 1.00 to 1.11 times the sum of its segments (docs/method.md), so that the best plan need
// not be among the best sums. The first batch is the best sums and, to learn from, plans within reach that
// differ from them and from each other. Then, in small rounds, a Gaussian process is fitted to whole / sum of
// all plans timed (search/plan_surrogate.h), every plan is predicted as its sum times that, and those are
// timed from which most improvement is to be expected. It ends after twelve rounds, once nothing noticeable
// is expected, or when the certificate closes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "plan/shortest_path.h"
#include "search/plan_closing.h"
#include "search/plan_strategy.h"
#include "search/plan_surrogate.h"
#include "search/random_source.h"
#include "search/selection.h"

namespace fusetune::search {

/// Of a time limit that the kernels used up, what plans get on top of it.
inline constexpr double kPlanShare = 0.2;
/// Whether a budget pays for as many kernels as there are segment variants, each `kernel_cost` of a trial,
/// and its share for plans. `guided` times whole plans from the start where it does not: with fewer kernels
/// timed the plans made of them are few.
inline bool pays_for_segments(double trials, double kernel_cost) {
  return trials >= (1 + kPlanShare) * plan::kVariantCount * kernel_cost;
}

class PlanRefinement : public PlanStrategy {
 public:
  /// `costs`: of each variant, timed alone. `finalists`: the plans that finalists() will be asked for.
  /// `closing`: ends it after a round; nullopt: nothing does. `among`: the plans it may ask for, all of them
  /// but in a replay of some.
  PlanRefinement(const plan::VariantCosts& costs, int finalists, std::uint64_t seed,
                 std::optional<PlanClosing> closing = std::nullopt,
                 std::span<const plan::FusionPlan> among = plan::all_plans());
  std::vector<PlanCandidate> ask(int limit) override;
  void tell(const plan::FusionPlan& plan, const Trial& trial) override;
  /// At most.
  std::optional<std::int64_t> expected() const override;
  std::int64_t predicted() const override;

  /// The best plans as far as is known now, best first, then the reference plans that are not among them; at
  /// most kMaximumFinalists. Before anything is told these are the best by their sums.
  std::vector<Finalist> finalists() const;
  /// Plans timed whole.
  std::int64_t timed() const { return static_cast<std::int64_t>(timed_.size()); }
  /// True when it ended because the certificate closed.
  bool closed() const { return closed_; }

 private:
  struct Known {
    plan::FusionPlan plan;
    double sum_us;
    PlanSurrogate::Traits traits;
    bool asked = false;
  };

  void start_round();
  void first_batch();
  void next_batch();
  void take_diverse(std::size_t count);
  void take(Known& plan);
  double estimate_us(const Known& plan) const;
  Finalist finalist(const Known& plan) const;
  std::vector<std::size_t> ranked() const;

  std::size_t finalists_;
  RandomSource random_;
  std::optional<PlanClosing> closing_;
  std::vector<Known> plans_;                    // those with times for all segments, smallest sum first
  std::map<plan::FusionPlan, double> timed_;    // us
  std::vector<PlanSurrogate::Sample> samples_;  // the same over their sums
  PlanSurrogate surrogate_;                     // fitted to all of them
  std::vector<PlanCandidate> queue_;            // of this round, next one last
  int waiting_ = 0, round_ = 0;
  bool closed_ = false, done_ = false;
};

}  // namespace fusetune::search
