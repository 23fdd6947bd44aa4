#include "search/plan_surrogate.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>
#include <utility>

#include "search/cholesky.h"

namespace fusetune::search {
namespace {

/// Standard deviation of a timing's logarithm: medians of a dozen samples (data/recorded/README.md).
constexpr double kNoise = 0.01;
/// Of plans, before two of them were timed.
constexpr double kSpread = 0.05;
/// Prior variances in units of the samples' variance. The level is known from all samples together.
constexpr double kLevel = 4;
constexpr std::array kCountShares = {0.0, 0.1};  // of what a border costs, whichever it is
constexpr std::array kBorderShares = {0.03, 0.1, 0.3};
constexpr std::array kKernelShares = {0.03, 0.1, 0.3, 1.0};
/// With fewer samples the likelihood says nothing; the middle is taken.
constexpr std::size_t kLeastToChoose = 8;

}  // namespace

PlanSurrogate::Traits::Traits(const plan::FusionPlan& plan)
    : borders(plan.borders() | (plan.hand_written() ? 1U << 14 : 0U)) {
  for (const plan::SegmentVariant& variant : plan.variants()) {
    const auto index = static_cast<unsigned>(plan::variant_index(variant));
    variants[index / 64] |= std::uint64_t{1} << index % 64;
  }
}

double PlanSurrogate::Prior::covariance(const Traits& a, const Traits& b) const {
  int kernels = 0;
  for (std::size_t i = 0; i < a.variants.size(); ++i) kernels += std::popcount(a.variants[i] & b.variants[i]);
  const int counts = std::popcount(a.borders) * std::popcount(b.borders);
  return level + count * counts + border * std::popcount(a.borders & b.borders) + kernel * kernels;
}

std::vector<double> PlanSurrogate::covariances(const Traits& plan) const {
  std::vector<double> values;
  values.reserve(traits_.size());
  for (const Traits& sample : traits_) values.push_back(fitted_.prior.covariance(plan, sample));
  return values;
}

PlanSurrogate::Fitted PlanSurrogate::fitted_under(const Prior& prior) const {
  const std::size_t n = traits_.size();
  Fitted fitted{.prior = prior, .factor = std::vector<double>(n * n), .weights = values_};
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j <= i; ++j)
      fitted.factor[i * n + j] = prior.covariance(traits_[i], traits_[j]) + (i == j ? kNoise * kNoise : 0);
  const double log_determinant = factor_in_place(fitted.factor, n);
  solve_lower(fitted.factor, fitted.weights);
  fitted.log_likelihood = -sum_of_squares(fitted.weights) / 2 - log_determinant;
  solve_upper(fitted.factor, fitted.weights);
  return fitted;
}

void PlanSurrogate::fit(std::span<const Sample> samples) {
  traits_.clear();
  values_.clear();
  mean_ = 0;
  for (const Sample& sample : samples) {
    traits_.emplace_back(sample.plan);
    values_.push_back(sample.log_time);
    mean_ += sample.log_time / static_cast<double>(samples.size());
  }
  for (double& value : values_) value -= mean_;
  const auto size = static_cast<double>(values_.size());
  const double variance =
      values_.size() < 2 ? kSpread * kSpread : std::max(sum_of_squares(values_) / size, kNoise * kNoise);
  const auto prior = [&](double count, double border, double kernel) {
    return Prior{kLevel * variance, count * variance, border * variance, kernel * variance};
  };
  fitted_ = fitted_under(prior(kCountShares[1], kBorderShares[1], kKernelShares[1]));
  if (samples.size() < kLeastToChoose) return;
  for (const double count : kCountShares)
    for (const double border : kBorderShares)
      for (const double kernel : kKernelShares) {
        Fitted other = fitted_under(prior(count, border, kernel));
        if (other.log_likelihood > fitted_.log_likelihood) fitted_ = std::move(other);
      }
}

double PlanSurrogate::mean(const Traits& plan) const {
  const std::vector<double> shared = covariances(plan);
  return mean_ + dot(shared, fitted_.weights);
}

PlanSurrogate::Belief PlanSurrogate::believe(const Traits& plan) const {
  std::vector<double> shared = covariances(plan);
  const double mean = mean_ + dot(shared, fitted_.weights);
  solve_lower(fitted_.factor, shared);
  const double variance = fitted_.prior.covariance(plan, plan) - sum_of_squares(shared);
  return {mean, std::sqrt(std::max(variance, 0.0))};
}

double expected_improvement(const PlanSurrogate::Belief& belief, double best) {
  const double gain = best - belief.mean;
  if (!(belief.deviation > 0)) return std::max(gain, 0.0);
  const double z = gain / belief.deviation;
  const double density = std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi);
  return gain * std::erfc(-z / std::numbers::sqrt2) / 2 + belief.deviation * density;
}

std::vector<std::size_t> most_promising(std::span<const double> gains, double least, std::size_t count) {
  std::vector<std::pair<double, std::size_t>> promising;
  for (std::size_t i = 0; i < gains.size(); ++i)
    if (gains[i] >= least) promising.emplace_back(gains[i], i);
  const std::size_t most = std::min(count, promising.size());
  std::partial_sort(promising.begin(), promising.begin() + static_cast<std::ptrdiff_t>(most), promising.end(),
                    [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < most; ++i) places.push_back(promising[i].second);
  return places;
}

}  // namespace fusetune::search
