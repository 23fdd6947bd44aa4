// Robust statistics of timing samples: medians, and intervals that assume no distribution.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "measure/outcome.h"

namespace fusetune::measure {

struct Interval {
  double low = 0;
  double high = 0;
};

/// Middle value; the mean of the two middle ones for an even count. Throws base::InternalError when empty.
double median(std::span<const double> values);
/// Medians of the first, third, ... and of the second, fourth, ... value: two measurements that share no
/// noise. Zeros where there is one value only.
std::pair<double, double> half_medians(std::span<const double> values);
/// Median of |value - median(values)|, unscaled.
double median_absolute_deviation(std::span<const double> values);
/// Summary of samples in microseconds; all zero when there are none.
TimingSummary summarize(std::span<const double> samples_us);

/// Samples that deviate from their median by more than this share of it, in the median, have no time. Of
/// 9,600 kernels of 24 problems timed on a shared machine (data/recorded/sapphire-rapids) 8 % did. A
/// twentieth of those with a deviation above 10 % seemed at least 40 % faster than kernels like them, as
/// their reference had been disturbed and they had not: no plan is faster than the sum of such times.
inline constexpr double kMostSpread = 0.06;
/// Of fewer samples the deviation says too little.
inline constexpr int kLeastForSpread = 8;
bool is_steady(const TimingSummary& time);

/// Two-sided interval of the population median with error probability at most `alpha`, from order
/// statistics: with n sorted values, P(x_(k) <= median <= x_(n+1-k)) = 1 - 2 P(Bin(n, 1/2) <= k - 1), and k
/// is the largest for which that is at least 1 - alpha. Exact for any continuous distribution. Infinite on
/// both sides where n is too small for `alpha` (n < 6 at 5 %).
/// Values that depend on each other count as n / `design_effect` independent ones (L. Kish, Survey Sampling),
/// whose ranks are scaled to the n there are.
/// Source: W. J. Conover, Practical Nonparametric Statistics, confidence interval of a quantile.
Interval median_interval(std::span<const double> values, double alpha, double design_effect = 1);

/// b[i] / a[i].
std::vector<double> paired_ratios(std::span<const double> a, std::span<const double> b);

/// A tie: the interval includes 1, or the ratio is within base::kTieBand of 1.
bool is_tied(double ratio, const Interval& interval);

}  // namespace fusetune::measure
