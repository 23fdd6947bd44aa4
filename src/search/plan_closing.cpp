#include "search/plan_closing.h"

#include <algorithm>
#include <cmath>

namespace fusetune::search {

PlanClosing::PlanClosing(std::span<const TimedEdge> edges, double epsilon)
    : limits_(limits(edges)), epsilon_(epsilon) {}

void PlanClosing::tell(double sum_us, const Trial& trial) {
  const double error_us = 1.96 * median_error(trial.mad_us, std::max(1, trial.samples));
  alpha_ = std::min(alpha_, (trial.time_us - error_us) / sum_us);
  high_us_ = std::min(high_us_, trial.time_us + error_us);
}

std::optional<Certificate> PlanClosing::certificate() const {
  if (!std::isfinite(alpha_) || !(alpha_ > 0)) return std::nullopt;
  return certify_bounded(limits_, high_us_, alpha_);
}

bool PlanClosing::closed() const {
  const std::optional<Certificate> found = certificate();
  return found && found->closed(epsilon_);
}

}  // namespace fusetune::search
