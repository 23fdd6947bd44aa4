// How much faster a plan could be than the one found, as far as measurements can say.
#pragma once

#include <optional>
#include <span>

#include "plan/shortest_path.h"

namespace fusetune::search {

/// One kernel that was timed: a variant with one of its schedules.
struct TimedEdge {
  int variant = 0;
  double median_us = 0;
  double mad_us = 0;
  int samples = 0;  // > 0
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

/// Lower limits of the variants' times, each of its fastest schedule, that hold together with probability 95
/// %: median minus z standard errors, z from the normal distribution by Bonferroni over all edges. +infinity
/// where there is no time.
plan::VariantCosts lower_limits(std::span<const TimedEdge> edges);

/// `incumbent_high_us`: upper limit of the best plan's whole time. `alpha` > 0. nullopt: no plan has times
/// for all its segments.
std::optional<Certificate> certify(std::span<const TimedEdge> edges, double incumbent_high_us, double alpha);

}  // namespace fusetune::search
