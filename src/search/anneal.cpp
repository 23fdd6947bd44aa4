#include "search/anneal.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace fusetune::search {
namespace {

constexpr std::int64_t kDefaultBudget = 200;
constexpr double kHot = 0.1, kCold = 0.005;  // ratios of times that are taken with probability 1/e
constexpr int kBits = 15;                    // fourteen borders and the attention flag
/// Proposals in a row that are known already before the walk begins again elsewhere.
constexpr int kMostKnown = 100;

plan::FusionPlan flip(const plan::FusionPlan& plan, std::size_t bit) {
  if (bit == kBits - 1) return {plan.borders(), !plan.hand_written()};
  return {static_cast<std::uint16_t>(plan.borders() ^ (1u << bit)), plan.hand_written()};
}

}  // namespace

Anneal::Anneal(const PlanSpace& space, std::uint64_t seed)
    : plans_(space.plans),
      space_(space.plans.begin(), space.plans.end()),
      budget_(space.budget > 0 ? space.budget : kDefaultBudget),
      random_(seed) {}

std::optional<std::int64_t> Anneal::expected() const {
  return std::min(budget_, static_cast<std::int64_t>(space_.size()));
}

double Anneal::temperature() const {
  const double share = std::min(1.0, static_cast<double>(times_.size()) / static_cast<double>(budget_));
  return kHot * std::pow(kCold / kHot, share);
}

plan::FusionPlan Anneal::anywhere() { return plans_[random_.below(plans_.size())]; }

/// One bit away, more where the space (a recording, say) does not have that plan.
plan::FusionPlan Anneal::propose() {
  plan::FusionPlan next = *at_;
  do {
    next = flip(next, random_.below(kBits));
  } while (next == *at_ || !space_.contains(next));
  return next;
}

void Anneal::step_to(const plan::FusionPlan& plan, double time_us) {
  const double slower = std::log(time_us / times_.at(*at_));
  if (slower <= 0 || random_.unit() < std::exp(-slower / temperature())) at_ = plan;
}

std::vector<PlanCandidate> Anneal::ask(int limit) {
  const auto tried = static_cast<std::int64_t>(times_.size());
  if (limit < 1 || waiting_ || tried >= budget_ || times_.size() == space_.size()) return {};
  if (!at_) return {{*(waiting_ = anywhere()), true}};
  for (int known = 0;; ++known) {
    const plan::FusionPlan next = known < kMostKnown && space_.size() > 1 ? propose() : anywhere();
    const auto found = times_.find(next);
    if (found == times_.end()) return {{*(waiting_ = next), false}};
    if (known < kMostKnown) step_to(next, found->second);
  }
}

void Anneal::tell(const plan::FusionPlan& plan, const Trial& trial) {
  waiting_.reset();
  const double time_us = trial.ok ? trial.time_us : std::numeric_limits<double>::infinity();
  times_[plan] = time_us;
  if (!trial.ok) return;
  if (!at_) {
    at_ = plan;
  } else {
    step_to(plan, time_us);
  }
}

}  // namespace fusetune::search
