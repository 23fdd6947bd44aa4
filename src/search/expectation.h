// What is known of kernels that have no time yet: by a prior that passed its test, and by the roofline.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "search/roofline.h"
#include "search/segment_prior.h"
#include "search/space.h"

namespace fusetune::search {

class Expectation {
 public:
  /// `work`: as of Space; empty: not known.
  Expectation(std::function<Work(int variant)> work, Priors priors)
      : work_(std::move(work)), priors_(std::move(priors)) {}

  /// A variant took `time_us`, > 0, with some schedule.
  void tell(int variant, double time_us);
  /// By every variant in `best`, each with its fastest schedule so far. Once: later calls do nothing.
  void test_priors(const Incumbents& best);
  /// Of the priors up to the one that is trusted.
  std::span<const PriorTest> tests() const { return tests_; }
  /// A prior is trusted.
  bool by_prior() const { return !tests_.empty() && tests_.back().trusted; }

  /// By the trusted prior, one for each candidate, in its unit; all NaN where none is trusted.
  std::vector<double> by_prior_us(std::span<const Candidate> candidates) const;
  /// As of Roofline; 0: nothing is known.
  double least_us(int variant) const { return work_ ? roofline_.least_us(work_(variant)) : 0; }

 private:
  std::function<Work(int variant)> work_;
  Priors priors_;
  Roofline roofline_;
  std::vector<PriorTest> tests_;
  bool tested_ = false;
};

}  // namespace fusetune::search
