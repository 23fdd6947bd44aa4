#include "search/expectation.h"

#include <limits>

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

std::vector<double> Expectation::by_prior_us(std::span<const Candidate> candidates) const {
  if (!by_prior()) return std::vector<double>(candidates.size(), std::numeric_limits<double>::quiet_NaN());
  return priors_[tests_.size() - 1]->predict_us(candidates);
}

}  // namespace fusetune::search
