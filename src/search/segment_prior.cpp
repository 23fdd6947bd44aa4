#include "search/segment_prior.h"

#include <algorithm>
#include <cmath>

#include "model/metrics.h"

namespace fusetune::search {
namespace {

double median_ratio(std::span<const double> measured, std::span<const double> predicted) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < measured.size(); ++i) ratios.push_back(measured[i] / predicted[i]);
  const auto middle = ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2);
  std::nth_element(ratios.begin(), middle, ratios.end());
  return *middle;
}

}  // namespace

PriorTest test_prior(const SegmentPrior& prior, const Probes& probes) {
  PriorTest test{.kind = std::string(prior.kind()), .name = prior.name()};
  const std::vector<double> all = prior.predict_us(probes.candidates);
  std::vector<double> predicted, measured, work;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!std::isfinite(all[i]) || !(all[i] > 0)) continue;
    predicted.push_back(all[i]);
    measured.push_back(probes.measured_us[i]);
    if (!probes.work.empty()) work.push_back(probes.work[i]);
  }
  test.probes = measured.size();
  if (test.probes < kFewestProbes) return test;
  test.spearman = model::spearman(predicted, measured);
  if (!work.empty()) test.roofline = model::spearman(work, measured);
  test.trusted = test.spearman >= kTrustedSpearman && !(test.spearman < test.roofline);
  test.scale = median_ratio(measured, predicted);
  return test;
}

}  // namespace fusetune::search
