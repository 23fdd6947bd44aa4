// What kernels take that nobody has timed, and how uncertain that is: a Gaussian process over what every
// operator takes in the kernel that it is part of.
//
// A kernel's time is taken to be the sum of its operators' times. Each is what the operator takes by itself,
// in the fastest kernel of its own, and a difference that depends on its surroundings: which operators stand
// beside it in the kernel, and the fields of the schedule that concern it. Two kernels have as much in common
// as the operators in both of them have alike surroundings; nothing is learned of fusing an operator that no
// kernel told about. So the few dozen kernels that a search begins with say something of all others, of short
// ones with little doubt and of long ones with more, and the doubt is in microseconds, as a plan adds them
// up.
//
// How much operators differ by their surroundings is what makes the times known most likely (type II maximum
// likelihood; Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, chapters 2 and 5). Draws
// are joint ones: kernels that have much in common are fast and slow together.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "block/operators.h"
#include "search/random_source.h"
#include "search/space.h"

namespace fusetune::search {

class KernelSurrogate {
 public:
  /// What each operator takes in the fastest kernel that runs nothing else, > 0.
  using OperatorTimes = std::array<double, block::kOperatorCount>;
  /// A kernel, and what it is expected to take over what its operators take alone: 1, or what a prior says.
  struct Kernel {
    Kernel(const Candidate& candidate, double expected = 1);  // NOLINT(google-explicit-constructor)
    plan::SegmentVariant variant;
    std::array<double, 16> traits{};  // of its schedule, in doublings
    double expected = 1;
  };
  struct Sample {
    Kernel kernel;
    double time_us = 0;       // finite, > 0
    double deviation_us = 0;  // standard error; that of timing a kernel again another time comes on top
  };
  struct Belief {
    double mean_us = 0;       // of what it takes, without the noise of timing it; may be below 0
    double deviation_us = 0;  // standard deviation
  };

  explicit KernelSurrogate(const OperatorTimes& alone_us);

  /// Learns from these samples alone: O(n^3) for n of them.
  void fit(std::span<const Sample> samples);
  /// O(n^2).
  Belief believe(const Kernel& kernel) const;
  /// `count` times all of `kernels` together, one element each: O(n^2 m + m^3) for m of them. `widening`: how
  /// much larger deviations are than the samples say.
  std::vector<std::vector<double>> draw(std::span<const Kernel> kernels, int count, double widening,
                                        RandomSource& random) const;

 private:
  double expected_us(const Kernel& kernel) const;
  double covariance(const Kernel& a, const Kernel& b) const;
  std::vector<double> covariances(const Kernel& kernel) const;
  void refit(double amplitude, const std::vector<double>& covariance, const std::vector<double>& noise);

  OperatorTimes alone_us_;
  std::array<double, block::kOperatorCount> variance_;  // of what an operator takes, us^2, before amplitude_
  std::vector<Kernel> kernels_;
  std::vector<double> rest_us_;  // of each sample: its time less what was expected
  double amplitude_ = 1;
  double log_likelihood_ = 0;    // up to a constant
  std::vector<double> factor_;   // of the samples' covariance
  std::vector<double> weights_;  // its inverse times rest_us_
};

}  // namespace fusetune::search
