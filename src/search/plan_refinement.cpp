#include "search/plan_refinement.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "search/queue.h"

namespace fusetune::search {
namespace {

/// Of the first batch, beside the best sums.
constexpr std::size_t kDiverse = 8;
constexpr std::size_t kRound = 4;
constexpr int kRounds = 12;  // after the first batch: with the default of eight finalists 64 plans at most
/// What is taken to learn from is at most this much slower than the best: the model is to be right there.
constexpr double kReach = 1.06;
/// An expected improvement below this share is none worth a timing.
constexpr double kLeastImprovement = 1e-5;

int difference(const plan::FusionPlan& a, const plan::FusionPlan& b) {
  return std::popcount(static_cast<unsigned>(a.borders() ^ b.borders())) +
         (a.hand_written() != b.hand_written() ? 1 : 0);
}

}  // namespace

PlanRefinement::PlanRefinement(const plan::VariantCosts& costs, int finalists, std::uint64_t seed,
                               std::optional<PlanClosing> closing, std::span<const plan::FusionPlan> among)
    : finalists_(static_cast<std::size_t>(
          std::clamp(finalists, 0, kMaximumFinalists - static_cast<int>(reference_plans().size())))),
      random_(seed),
      closing_(std::move(closing)) {
  for (const plan::FusionPlan& plan : among)
    if (const double sum = plan::plan_cost(plan, costs); std::isfinite(sum))
      plans_.push_back({plan, sum, plan});
  std::stable_sort(plans_.begin(), plans_.end(), [](const Known& a, const Known& b) {
    return std::tuple(a.sum_us, a.plan.kernel_count()) < std::tuple(b.sum_us, b.plan.kernel_count());
  });
}

std::int64_t PlanRefinement::predicted() const {
  return timed_.empty() ? 0 : static_cast<std::int64_t>(plans_.size() - timed_.size());
}

std::optional<std::int64_t> PlanRefinement::expected() const {
  const std::size_t most = finalists_ + kDiverse + kRounds * kRound;
  return static_cast<std::int64_t>(std::min(most, plans_.size()));
}

void PlanRefinement::tell(const plan::FusionPlan& plan, const Trial& trial) {
  --waiting_;
  if (!trial.ok || !std::isfinite(trial.time_us) || trial.time_us <= 0) return;
  const auto known =
      std::find_if(plans_.begin(), plans_.end(), [&](const Known& one) { return one.plan == plan; });
  if (known == plans_.end())
    throw base::InternalError("a plan was told that nobody asked for: " + plan.to_string());
  timed_[plan] = trial.time_us;
  if (closing_) closing_->tell(known->sum_us, trial);
  samples_.push_back({plan, std::log(trial.time_us / known->sum_us)});
  surrogate_.fit(samples_);  // at once: a search may be stopped at any time
}

/// Of the whole plan, without its timing's noise. One that was tried and has no time is predicted like any
/// other: most often the machine was busy, and a plan that is wrong is out at the comparison.
double PlanRefinement::estimate_us(const Known& plan) const {
  return plan.sum_us * std::exp(surrogate_.mean(plan.traits));
}

/// Places in plans_, smallest estimate first; equal ones stay in the order of plans_.
std::vector<std::size_t> PlanRefinement::ranked() const {
  std::vector<std::pair<double, std::size_t>> order;
  for (std::size_t i = 0; i < plans_.size(); ++i) order.emplace_back(estimate_us(plans_[i]), i);
  std::sort(order.begin(), order.end());
  std::vector<std::size_t> places;
  for (const auto& [estimate, place] : order) places.push_back(place);
  return places;
}

void PlanRefinement::take(Known& plan) {
  plan.asked = true;
  queue_.push_back({plan.plan, false});
}

/// Plans within reach, each as different as can be from those taken before it; of equally different ones that
/// with the smaller sum.
void PlanRefinement::take_diverse(std::size_t count) {
  std::vector<std::pair<int, Known*>> open;  // smallest difference from a plan taken
  for (Known& known : plans_)
    if (!known.asked && known.sum_us <= kReach * plans_.front().sum_us)
      open.emplace_back(std::numeric_limits<int>::max(), &known);
  const auto see = [&](const plan::FusionPlan& taken) {
    for (auto& [least, known] : open) least = std::min(least, difference(known->plan, taken));
  };
  for (const PlanCandidate& taken : queue_) see(taken.plan);
  for (; count > 0 && !open.empty(); --count) {
    const auto farthest = std::max_element(open.begin(), open.end(),
                                           [](const auto& a, const auto& b) { return a.first < b.first; });
    Known& chosen = *farthest->second;
    open.erase(farthest);
    take(chosen);
    see(chosen.plan);
  }
}

void PlanRefinement::first_batch() {
  for (std::size_t i = 0; i < std::min(finalists_, plans_.size()); ++i) take(plans_[i]);
  take_diverse(kDiverse);
}

/// The plans from which most is to be expected beside the fastest one timed.
void PlanRefinement::next_batch() {
  double best = std::numeric_limits<double>::infinity();
  for (const Known& known : plans_)
    if (timed_.contains(known.plan)) best = std::min(best, std::log(estimate_us(known)));
  if (std::isinf(best)) return;  // nothing runs
  std::vector<double> gains;
  for (const Known& known : plans_) {
    gains.push_back(0);
    if (known.asked) continue;
    PlanSurrogate::Belief belief = surrogate_.believe(known.traits);
    belief.mean += std::log(known.sum_us);
    gains.back() = expected_improvement(belief, best);
  }
  for (const std::size_t place : most_promising(gains, kLeastImprovement, kRound)) take(plans_[place]);
}

void PlanRefinement::start_round() {
  closed_ = closing_ && closing_->closed();
  if (round_ == 0) {
    first_batch();
  } else if (round_ <= kRounds && !closed_) {
    next_batch();
  }
  ++round_;
  done_ = queue_.empty();
  random_.shuffle(queue_);  // what drifts meanwhile must not look like a merit of the order
}

std::vector<PlanCandidate> PlanRefinement::ask(int limit) {
  if (queue_.empty() && waiting_ == 0 && !done_) start_round();
  std::vector<PlanCandidate> candidates = take_last(queue_, limit);
  waiting_ += static_cast<int>(candidates.size());
  return candidates;
}

Finalist PlanRefinement::finalist(const Known& plan) const {
  const Basis basis = timed_.contains(plan.plan) ? Basis::whole : timed_.empty() ? Basis::sum : Basis::model;
  return {plan.plan, plan.sum_us, estimate_us(plan), basis};
}

std::vector<Finalist> PlanRefinement::finalists() const {
  const std::vector<std::size_t> order = ranked();
  std::vector<Finalist> chosen;
  for (std::size_t i = 0; i < std::min(finalists_, order.size()); ++i)
    chosen.push_back(finalist(plans_[order[i]]));
  for (const ReferencePlan& reference : reference_plans()) {
    const auto same = [&](const auto& one) { return one.plan == reference.plan; };
    const auto known = std::find_if(plans_.begin(), plans_.end(), same);
    if (known != plans_.end() && std::none_of(chosen.begin(), chosen.end(), same))
      chosen.push_back(finalist(*known));
  }
  return chosen;
}

}  // namespace fusetune::search
