#include "search/pruning_audit.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace fusetune::search {
namespace {

/// Probability that a limit is exceeded.
constexpr double kError = 0.05;
/// Worlds simulated: a chance of 10 % is then uncertain by 0.7 %.
constexpr int kDraws = 2000;
/// About two standard errors of a kernel's time, which no model can predict.
constexpr double kLeastError = 0.02;
/// Fewer say too little of what errors there are.
constexpr std::size_t kLeastErrors = 6;
constexpr double kFarOff = 3;

double log_choose(std::int64_t n, std::int64_t k) {
  return std::lgamma(static_cast<double>(n + 1)) - std::lgamma(static_cast<double>(k + 1)) -
         std::lgamma(static_cast<double>(n - k + 1));
}

/// Probability of at most `seen` of `marked` among `drawn` of `population`.
double at_most(std::int64_t seen, std::int64_t population, std::int64_t marked, std::int64_t drawn) {
  double sum = 0;
  for (std::int64_t k = std::max<std::int64_t>(0, drawn - (population - marked));
       k <= std::min({seen, marked, drawn}); ++k)
    sum += std::exp(log_choose(marked, k) + log_choose(population - marked, drawn - k) -
                    log_choose(population, drawn));
  return sum;
}

double shortest(const plan::VariantCosts& costs) { return plan::PathCosts(costs).from(0); }

std::size_t index_of(const Candidate& candidate) { return static_cast<std::size_t>(candidate.variant); }

bool has_time(const Trial& trial) { return trial.ok && std::isfinite(trial.time_us) && trial.time_us > 0; }

}  // namespace

bool PruningEstimate::passed() const { return losses == 0 && chance && *chance <= kAcceptedChance; }

std::int64_t most_losses(std::int64_t population, std::int64_t drawn, std::int64_t losses) {
  std::int64_t most = population - drawn + losses;  // all others may be
  while (most > losses && at_most(losses, population, most, drawn) <= kError) --most;
  return most;
}

std::size_t PruningAudit::draws(std::size_t left_out) {
  return std::min(left_out, std::max(kLeast, (left_out + kShareOf - 1) / kShareOf));
}

PruningAudit::PruningAudit(const std::vector<LeftOut>& left_out, const plan::VariantCosts& costs,
                           std::uint64_t seed)
    : drawn_(left_out), before_(costs), now_(costs), best_us_(shortest(costs)), seed_(seed) {
  RandomSource(seed).shuffle(drawn_);
  const auto end = drawn_.begin() + static_cast<std::ptrdiff_t>(draws(left_out.size()));
  rest_.assign(end, drawn_.end());
  drawn_.erase(end, drawn_.end());
}

void PruningAudit::tell(const Candidate& candidate, const Trial& trial) {
  const auto found = std::find_if(drawn_.begin(), drawn_.end(),
                                  [&](const LeftOut& one) { return one.candidate == candidate; });
  if (found == drawn_.end()) return;
  ++audited_;
  if (!has_time(trial)) return;
  if (const double scale = error_scale(*found); scale > 0)
    errors_.push_back(std::log(trial.time_us / found->predicted_us) / scale);
  plan::VariantCosts with_it = before_;
  double& cost = with_it[index_of(candidate)];
  cost = std::min(cost, trial.time_us);
  if (shortest(with_it) * (1 + PruningEstimate::kLoss) < best_us_) ++losses_;
  now_[index_of(candidate)] = std::min(now_[index_of(candidate)], trial.time_us);
}

double PruningAudit::error_scale(const LeftOut& one) const {
  if (one.predicted_us > 0 && one.deviation_us > 0)
    return std::hypot(kLeastError, one.deviation_us / one.predicted_us);
  const double known_us = before_[index_of(one.candidate)];
  if (!std::isfinite(known_us) || !(one.predicted_us > 0)) return 0;
  return kLeastError + std::abs(std::log(one.predicted_us / known_us));
}

std::optional<double> PruningAudit::error_size() const {
  if (errors_.size() < kLeastErrors) return std::nullopt;
  double squares = 0;
  for (const double error : errors_) squares += std::min(error * error, kFarOff * kFarOff);
  return std::sqrt(squares / static_cast<double>(errors_.size()));
}

/// Silverman's rule for a normal kernel.
double PruningAudit::error_width() const {
  const auto n = static_cast<double>(errors_.size());
  const double mean = std::accumulate(errors_.begin(), errors_.end(), 0.0) / n;
  double squares = 0;
  for (const double error : errors_) squares += (error - mean) * (error - mean);
  return 1.06 * std::sqrt(squares / (n - 1)) * std::pow(n, -0.2);
}

double PruningAudit::chance_of_loss() const {
  const double limit_us = shortest(now_) / (1 + PruningEstimate::kLoss);
  const double width = error_width();
  RandomSource random(seed_);
  std::vector<double> errors = errors_;
  std::sort(errors.begin(), errors.end());  // the draws must not depend on the order of the answers
  std::vector<double> upto(errors.size());  // weights, summed up
  int lost = 0;
  for (int draw = 0; draw < kDraws; ++draw) {
    double sum = 0;
    for (double& each : upto) each = sum -= std::log(1 - random.unit());
    plan::VariantCosts costs = now_;
    for (const LeftOut& one : rest_) {
      const auto place = std::upper_bound(upto.begin(), upto.end() - 1, sum * random.unit());
      const double seen = errors[static_cast<std::size_t>(place - upto.begin())];
      const double error = seen + width * random.normal();
      double& cost = costs[index_of(one.candidate)];
      cost = std::min(cost, one.predicted_us * std::exp(error_scale(one) * error));
    }
    lost += shortest(costs) < limit_us ? 1 : 0;
  }
  return static_cast<double>(lost) / kDraws;
}

PruningEstimate PruningAudit::estimate() const {
  PruningEstimate result;
  result.left_out = static_cast<std::int64_t>(drawn_.size() + rest_.size());
  result.audited = audited_;
  result.losses = losses_;
  if (result.left_out > 0)
    result.share_at_most = static_cast<double>(most_losses(result.left_out, audited_, losses_)) /
                           static_cast<double>(result.left_out);
  if (complete() && rest_.empty()) {
    result.chance = 0;
  } else if (settled_chance_) {
    result.chance = settled_chance_;
  } else if (complete() && errors_.size() >= kLeastErrors) {
    result.chance = chance_of_loss();
  }
  return result;
}

}  // namespace fusetune::search
