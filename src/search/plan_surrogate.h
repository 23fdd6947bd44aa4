// What plans take, and how uncertain that is, from those timed whole: a Gaussian process over plans.
//
// A search has some dozen timed plans, which differ by a few percent and each by about one percent from what
// they would show again. Trees fitted to so little predict a handful of levels, of which each covers the
// plans to be told apart. What is known beforehand is the form: the time is a sum over the kernels, nearly
// additive in the borders. So the covariance of two plans grows with the borders and with the kernels that
// they share; how much each counts is what makes the timed plans most likely (type II maximum likelihood;
// Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, chapters 2 and 5). Expected
// improvement chooses what to time next (Jones, Schonlau, Welch, 1998).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "plan/fusion_plan.h"

namespace fusetune::search {

class PlanSurrogate {
 public:
  struct Sample {
    plan::FusionPlan plan;
    double log_time = 0;  // natural logarithm of a time, or of a ratio to what is known of the plan; finite
  };
  struct Belief {
    double mean = 0, deviation = 0;  // of the logarithm that a plan has without its timing's noise
  };

  /// What two plans are compared by: worth keeping for a plan that is predicted often.
  struct Traits {
    Traits(const plan::FusionPlan& plan);  // NOLINT(google-explicit-constructor): a plan, seen otherwise
    std::vector<int> places;               // below kTraits: of its borders, then of its kernels
    std::size_t borders = 0;  // how many of them are borders; hand-written attention counts as one
  };

  /// Learns from these samples alone: O(n^3) for n of them. Any number will do; without one the mean is 0.
  void fit(std::span<const Sample> samples);
  /// O(n) for the mean, O(n^2) for the deviation.
  double mean(const Traits& plan) const;
  Belief believe(const Traits& plan) const;

 private:
  static constexpr int kBorderTraits = block::kOperatorCount;  // the borders and hand-written attention
  static constexpr std::size_t kTraits = kBorderTraits + plan::kVariantCount;

  /// Prior variances, in the unit of the logarithm squared.
  struct Prior {
    double level, count, border, kernel;
    double variance(const Traits& plan) const;
  };
  /// Of the samples under one prior: the Cholesky factor of their covariance, and what follows from it.
  struct Fitted {
    Prior prior{};
    std::vector<double> factor;   // [n,n], lower triangle
    std::vector<double> weights;  // [n]: inverse covariance times values
    double log_likelihood = 0;    // up to a constant
  };

  Fitted fitted_under(const Prior& prior) const;
  /// Of `plan` with each sample.
  std::vector<double> covariances(const Traits& plan, const Prior& prior) const;

  std::vector<Traits> traits_;
  std::vector<double> have_;    // [kTraits, samples]: 1 where the sample has the trait
  std::vector<double> values_;  // less their mean
  double mean_ = 0;
  Fitted fitted_;
};

/// By how much, in the mean, a plan's logarithm falls below `best`: 0 for one that is known and no better.
double expected_improvement(const PlanSurrogate::Belief& belief, double best);

/// Places of the largest `gains` that are at least `least`, at most `count` of them, largest first.
std::vector<std::size_t> most_promising(std::span<const double> gains, double least, std::size_t count);

}  // namespace fusetune::search
