#include "search/certificate.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace fusetune::search {
namespace {

/// Upper quantile of the standard normal distribution, 0 < tail < 0.5. Rational approximation 26.2.23 of
/// Abramowitz and Stegun, Handbook of Mathematical Functions: absolute error below 4.5e-4.
double normal_quantile(double tail) {
  const double t = std::sqrt(-2 * std::log(tail));
  return t - (2.515517 + 0.802853 * t + 0.010328 * t * t) /
                 (1 + 1.432788 * t + 0.189269 * t * t + 0.001308 * t * t * t);
}

}  // namespace

double median_error(double mad, int samples) { return 1.2533 * 1.4826 * mad / std::sqrt(samples); }

plan::VariantCosts lower_limits(std::span<const TimedEdge> edges) {
  constexpr double kError = 0.05;
  const double z = edges.empty() ? 0 : normal_quantile(kError / static_cast<double>(edges.size()));
  plan::VariantCosts costs;
  costs.fill(std::numeric_limits<double>::infinity());
  for (const TimedEdge& edge : edges) {
    double& cost = costs[static_cast<std::size_t>(edge.variant)];
    cost = std::min(cost, std::max(0.0, edge.median_us - z * median_error(edge.mad_us, edge.samples)));
  }
  return costs;
}

std::optional<Certificate> certify(std::span<const TimedEdge> edges, double incumbent_high_us, double alpha) {
  const auto cheapest = plan::cheapest_plans(lower_limits(edges), 1);
  if (cheapest.empty() || !(cheapest.front().cost > 0)) return std::nullopt;
  Certificate certificate;
  certificate.alpha = alpha;
  certificate.rival = cheapest.front().plan;
  certificate.gain = std::max(0.0, incumbent_high_us / (alpha * cheapest.front().cost) - 1);
  return certificate;
}

}  // namespace fusetune::search
