#include "measure/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/tie_band.h"
#include "measure/sampling.h"

namespace fusetune::measure {
namespace {

/// log of P(Bin(n, 1/2) = k).
double log_half_binomial(int n, int k) {
  return std::lgamma(n + 1.0) - std::lgamma(k + 1.0) - std::lgamma(n - k + 1.0) - n * std::log(2.0);
}

/// The largest k with 2 P(Bin(n, 1/2) <= k - 1) <= alpha; 0: there is none.
int largest_rank(int n, double alpha) {
  int rank = 0;
  double tail = 0;
  while (rank < (n + 1) / 2) {
    tail += std::exp(log_half_binomial(n, rank));
    if (2 * tail > alpha) break;
    ++rank;
  }
  return rank;
}

}  // namespace

double median(std::span<const double> values) {
  if (values.empty()) throw base::InternalError("median of no values");
  return middle_value({values.begin(), values.end()});
}

std::pair<double, double> half_medians(std::span<const double> values) {
  if (values.size() < 2) return {0, 0};
  std::vector<double> halves[2];
  for (std::size_t i = 0; i < values.size(); ++i) halves[i % 2].push_back(values[i]);
  return {median(halves[0]), median(halves[1])};
}

double median_absolute_deviation(std::span<const double> values) {
  const double center = median(values);
  std::vector<double> deviations;
  deviations.reserve(values.size());
  for (const double value : values) deviations.push_back(std::abs(value - center));
  return median(deviations);
}

TimingSummary summarize(std::span<const double> samples_us) {
  if (samples_us.empty()) return {};
  return {.median_us = median(samples_us),
          .mad_us = median_absolute_deviation(samples_us),
          .min_us = *std::min_element(samples_us.begin(), samples_us.end()),
          .count = static_cast<int>(samples_us.size())};
}

bool is_steady(const TimingSummary& time) {
  return time.count < kLeastForSpread || time.mad_us <= kMostSpread * time.median_us;
}

Interval median_interval(std::span<const double> values, double alpha, double design_effect) {
  if (!(design_effect >= 1)) throw base::InternalError("values count as more than they are");
  const auto independent = static_cast<int>(static_cast<double>(values.size()) / design_effect);
  const int rank = largest_rank(independent, alpha);
  if (rank == 0) return {-std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
  const std::size_t from =
      values.size() * static_cast<std::size_t>(rank) / static_cast<std::size_t>(independent);
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  return {sorted[from - 1], sorted[sorted.size() - from]};
}

std::vector<double> paired_ratios(std::span<const double> a, std::span<const double> b) {
  if (a.size() != b.size()) throw base::InternalError("paired ratios of series of different length");
  std::vector<double> ratios(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) ratios[i] = b[i] / a[i];
  return ratios;
}

bool is_tied(double ratio, const Interval& interval) {
  return (interval.low <= 1 && 1 <= interval.high) || std::abs(ratio - 1) <= base::kTieBand;
}

}  // namespace fusetune::measure
