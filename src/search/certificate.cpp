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

/// Of each variant's fastest kernel; +infinity where it has none.
plan::VariantCosts costs_of(std::span<const BoundedEdge> edges) {
  plan::VariantCosts costs;
  costs.fill(std::numeric_limits<double>::infinity());
  for (const BoundedEdge& edge : edges) {
    double& cost = costs[static_cast<std::size_t>(edge.variant)];
    cost = std::min(cost, edge.least_us);
  }
  return costs;
}

}  // namespace

double median_error(double mad, int samples) { return 1.2533 * 1.4826 * mad / std::sqrt(samples); }

std::vector<BoundedEdge> limits(std::span<const TimedEdge> edges) {
  constexpr double kError = 0.05;
  const double z = edges.empty() ? 0 : normal_quantile(kError / static_cast<double>(edges.size()));
  std::vector<BoundedEdge> bounded;
  for (const TimedEdge& edge : edges) {
    const double least = edge.median_us - z * median_error(edge.mad_us, edge.samples);
    bounded.push_back({edge.variant, std::max(0.0, least)});
  }
  return bounded;
}

plan::VariantCosts lower_limits(std::span<const TimedEdge> edges) { return costs_of(limits(edges)); }

std::optional<Certificate> certify(std::span<const TimedEdge> edges, double incumbent_high_us, double alpha) {
  return certify_bounded(limits(edges), incumbent_high_us, alpha);
}

std::optional<Certificate> certify_bounded(std::span<const BoundedEdge> edges, double incumbent_high_us,
                                           double alpha) {
  const auto cheapest = plan::cheapest_plans(costs_of(edges), 1);
  if (cheapest.empty() || !(cheapest.front().cost > 0)) return std::nullopt;
  Certificate certificate;
  certificate.alpha = alpha;
  certificate.rival = cheapest.front().plan;
  certificate.gain = std::max(0.0, incumbent_high_us / (alpha * cheapest.front().cost) - 1);
  return certificate;
}

std::vector<bool> proved_irrelevant(std::span<const BoundedEdge> edges, double incumbent_high_us,
                                    double alpha) {
  const plan::PathCosts paths(costs_of(edges));
  std::vector<bool> dropped;
  for (const BoundedEdge& edge : edges) {
    const plan::Segment& segment = plan::all_variants()[static_cast<std::size_t>(edge.variant)].segment;
    const double through = paths.to(segment.first) + edge.least_us + paths.from(segment.last + 1);
    dropped.push_back(alpha * through > incumbent_high_us);
  }
  return dropped;
}

}  // namespace fusetune::search
