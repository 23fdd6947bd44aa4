#include "search/plan_surrogate.h"

#include <algorithm>
#include <array>
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

PlanSurrogate::Traits::Traits(const plan::FusionPlan& plan) {
  for (int border = 0; border < kBorderTraits - 1; ++border)
    if (plan.borders() >> border & 1) places.push_back(border);
  if (plan.hand_written()) places.push_back(kBorderTraits - 1);
  borders = places.size();
  for (const plan::SegmentVariant& variant : plan.variants())
    places.push_back(kBorderTraits + plan::variant_index(variant));
}

double PlanSurrogate::Prior::variance(const Traits& plan) const {
  const auto borders = static_cast<double>(plan.borders), all = static_cast<double>(plan.places.size());
  return level + count * borders * borders + border * borders + kernel * (all - borders);
}

/// Trait by trait over all samples at once: a repeated search spent a quarter of its time counting, sample by
/// sample, the bits that two plans share.
std::vector<double> PlanSurrogate::covariances(const Traits& plan, const Prior& prior) const {
  const std::size_t n = traits_.size();
  std::vector<double> values(n);
  const double count = prior.count * static_cast<double>(plan.borders);
  for (std::size_t i = 0; i < n; ++i)
    values[i] = prior.level + count * static_cast<double>(traits_[i].borders);
  for (std::size_t i = 0; i < plan.places.size(); ++i) {
    const double weight = i < plan.borders ? prior.border : prior.kernel;
    const double* const have = have_.data() + static_cast<std::size_t>(plan.places[i]) * n;
    for (std::size_t j = 0; j < n; ++j) values[j] += weight * have[j];
  }
  return values;
}

PlanSurrogate::Fitted PlanSurrogate::fitted_under(const Prior& prior) const {
  const std::size_t n = traits_.size();
  Fitted fitted{.prior = prior, .factor = std::vector<double>(n * n), .weights = values_};
  for (std::size_t i = 0; i < n; ++i) {
    const std::vector<double> row = covariances(traits_[i], prior);
    std::copy(row.begin(), row.begin() + static_cast<std::ptrdiff_t>(i) + 1, &fitted.factor[i * n]);
    fitted.factor[i * n + i] += kNoise * kNoise;
  }
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
  const std::size_t n = traits_.size();
  have_.assign(kTraits * n, 0);
  for (std::size_t i = 0; i < n; ++i)
    for (const int place : traits_[i].places) have_[static_cast<std::size_t>(place) * n + i] = 1;
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
  const std::vector<double> shared = covariances(plan, fitted_.prior);
  return mean_ + dot(shared, fitted_.weights);
}

PlanSurrogate::Belief PlanSurrogate::believe(const Traits& plan) const {
  std::vector<double> shared = covariances(plan, fitted_.prior);
  const double mean = mean_ + dot(shared, fitted_.weights);
  solve_lower(fitted_.factor, shared);
  const double variance = fitted_.prior.variance(plan) - sum_of_squares(shared);
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
