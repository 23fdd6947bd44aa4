// Paired timing: plans against a baseline, so that drift of the machine cancels in each ratio.
//
// Medians of samples taken minutes apart differ by up to 10 % (clock states), ratios of neighbouring samples
// do not. In each round every plan is timed once, next to a sample of the baseline:
//
//     p1 base p2 | p3 base p4 | ...       round r
//     p4 base p1 | p2 base p3 | ...       round r + 1: sides swapped, groups drawn anew
//
// A plan stands before the baseline in one half of its rounds and after it in the other (AB/BA), so that an
// effect of the order cancels as well; two plans share a baseline sample, which costs 1.5 samples per ratio
// instead of 2. Ratios of one plan use different baseline samples; that two plans share some makes their
// ratios dependent, which the Bonferroni correction allows.
//
// A plan that is clearly apart is dropped early. Looking more than once costs error probability, which is
// spent openly: a tenth at each early look, the rest at the end.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "measure/outcome.h"
#include "measure/sampling.h"
#include "measure/statistics.h"

namespace fusetune::measure {

/// Looks for an early decision happen after every so many pairs.
inline constexpr int kPairsPerLook = 40;
/// Beyond the tie band by this much, a plan need not be timed any longer.
inline constexpr double kClearlyApart = 0.01;
/// Error probability of all intervals of one comparison together.
inline constexpr double kFamilyError = 0.05;

/// The good pairs of one plan with the baseline, in order, microseconds.
struct PairSeries {
  Outcome outcome = Outcome::skipped;  // ok or noisy
  std::vector<double> baseline_us;
  std::vector<double> plan_us;
  int dropped = 0;
  bool stopped_early = false;  // clearly apart at a look before the last
};

/// Times plan `index` once; index 0 is the baseline.
using Sampler = std::function<Sample(int index)>;

/// Pairs of plans 1 .. plans-1 with plan 0, `pairs` good ones each unless clearly apart earlier. A pair with
/// an interrupted sample is dropped and taken again; a plan that has fewer than four fifths of its pairs
/// after three times as many rounds is `noisy`. Element 0 is the baseline with itself: its own samples.
/// `seed` decides the order of the groups.
std::vector<PairSeries> time_pairs(int plans, int pairs, const Sampler& sample, std::uint64_t seed);

/// Samples that time_pairs() takes where no plan is clearly apart and none is dropped.
int samples_of_pairs(int plans, int pairs);

/// Interval of the median ratio of `series`, simultaneous over `comparisons` plans and over the looks that a
/// run of `pairs` pairs takes. Never below 0.
Interval ratio_interval(const PairSeries& series, int comparisons, int pairs);

}  // namespace fusetune::measure
