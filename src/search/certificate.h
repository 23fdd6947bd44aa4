// How much faster a plan could be than the one found, as far as measurements can say.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "plan/shortest_path.h"
#include "search/space.h"

namespace fusetune::search {

/// One kernel that was timed: a variant with one of its schedules.
struct TimedEdge {
  int variant = 0;
  double median_us = 0;
  double mad_us = 0;
  int samples = 0;  // > 0
};

inline TimedEdge edge_of(int variant, const Trial& trial) {
  return {variant, trial.time_us, trial.mad_us, std::max(1, trial.samples)};
}

/// A kernel, timed or not, that takes at least so long.
struct BoundedEdge {
  int variant = 0;
  double least_us = 0;  // >= 0; 0: nothing is known
};

/// The assumption and what follows from it: if every plan takes at least `alpha` times the sum of its
/// segments, no plan over the timed (variant, schedule) pairs is more than `gain` faster than the best plan.
struct Certificate {
  double alpha = 0;  // lower limit of whole / sum over the plans where both were measured
  double gain = 0;   // 0.014: 1.4 %; 0: none is faster at all
  plan::FusionPlan rival = plan::FusionPlan::unfused();  // the plan whose lower bound is smallest
  bool closed(double epsilon) const { return gain <= epsilon; }
};

/// Standard error of a median of `samples` values whose median absolute deviation is `mad`: 1.2533 sigma /
/// sqrt(n) as for normal samples, and sigma 1.4826 MAD, which outliers do not move.
double median_error(double mad, int samples);

/// Lower limits of the kernels' times that hold together with probability 95 %: median minus z standard
/// errors, z from the normal distribution by Bonferroni over all of them. In order.
std::vector<BoundedEdge> limits(std::span<const TimedEdge> edges);

/// The same of the variants, each of its fastest schedule. +infinity where there is no time.
plan::VariantCosts lower_limits(std::span<const TimedEdge> edges);

/// `incumbent_high_us`: upper limit of the best plan's whole time. `alpha` > 0. nullopt: no plan has times
/// for all its segments.
std::optional<Certificate> certify(std::span<const TimedEdge> edges, double incumbent_high_us, double alpha);
/// The same where some kernels were not timed: the claim is then about those too.
std::optional<Certificate> certify_bounded(std::span<const BoundedEdge> edges, double incumbent_high_us,
                                           double alpha);

/// Which of the kernels are in no plan that could be faster than `incumbent_high_us`, if every plan takes at
/// least `alpha` times the sum of its segments: alpha * (P + least + Q) > incumbent_high_us, with P and Q the
/// shortest paths to a kernel's first operator and from its last, over the lower limits. Once is enough:
/// where a kernel is kept there is a plan through it that could be fast enough, and so are all kernels of
/// that.
std::vector<bool> proved_irrelevant(std::span<const BoundedEdge> edges, double incumbent_high_us,
                                    double alpha);

}  // namespace fusetune::search
