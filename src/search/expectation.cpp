#include "search/expectation.h"

#include <cmath>

#include "model/features.h"

namespace fusetune::search {

void Expectation::tell(int variant, double time_us) {
  if (work_) roofline_.tell(work_(variant), time_us);
}

void Expectation::test_priors(const Incumbents& best) {
  if (tested_) return;
  tested_ = true;
  Probes probes;
  for (int variant = 0; variant < plan::kVariantCount; ++variant) {
    const std::optional<Incumbents::Best>& known = best[variant];
    if (!known) continue;
    probes.candidates.push_back({variant, known->schedule});
    probes.measured_us.push_back(known->time_us);
    if (!work_) continue;
    const Work needed = work_(variant);
    probes.work.push_back(model::work_of(needed.flops, needed.bytes));
  }
  for (const auto& prior : priors_) {
    if (by_prior()) return;
    tests_.push_back(test_prior(*prior, probes));
  }
}

/// By the trusted prior, in the unit of this search's times.
double Expectation::scaled_us(const Candidate& candidate) const {
  const SegmentPrior& trusted = *priors_[tests_.size() - 1];
  return tests_.back().scale * trusted.predict_us({&candidate, 1}).front();
}

std::optional<double> Expectation::expected_us(const Candidate& candidate) const {
  if (by_prior())
    if (const double us = scaled_us(candidate); std::isfinite(us)) return us;
  if (!work_) return std::nullopt;
  return roofline_.expected_us(work_(candidate.variant));
}

}  // namespace fusetune::search
