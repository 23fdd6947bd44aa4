// Paired timing: plans against a baseline, so that drift of the machine cancels in each ratio.
//
// Medians of samples taken minutes apart differ by up to 10 % (clock states), ratios of neighbouring samples
// do not. In each round every plan has a turn of a few samples, next to a turn of the baseline:
//
//     p1 base p2 | p3 base p4 | ...       round r
//     p4 base p1 | p2 base p3 | ...       round r + 1: sides swapped, groups drawn anew
//
// and the i-th sample of one is divided by the i-th of the other. A plan stands before the baseline in one
// half of its rounds and after it in the other (AB/BA), so that an effect of the order cancels as well; two
// plans share a baseline sample, which costs 1.5 samples per ratio instead of 2. Ratios of one plan use
// different baseline samples; that two plans share some makes their ratios dependent, which the Bonferroni
// correction allows. Turns are for the caches: each begins with untimed passes (timing.h), which would cost
// several times the samples if these were taken one by one.
//
// What does not cancel is the process: where its memory happens to lie, two plans' ratio differs by a percent
// from one process to the next and stays so while it lives (docs/method.md, "One process is one sample"). The
// pairs of a comparison are therefore taken in several, one after the other: comparison.h.
#pragma once

#include <functional>
#include <vector>

#include "measure/outcome.h"
#include "measure/sampling.h"

namespace fusetune::measure {

/// The good pairs of one plan with the baseline, in order, microseconds.
struct PairSeries {
  Outcome outcome = Outcome::skipped;  // ok or noisy
  std::vector<double> baseline_us;
  std::vector<double> plan_us;
  int dropped = 0;
};

/// Samples of one plan in a row; fewer where they do not divide, as equal as can be.
inline constexpr int kSamplesPerTurn = 5;

/// Times plan `index` so many times; index 0 is the baseline.
using Turn = std::function<std::vector<Sample>(int index, int samples)>;

/// Pairs of plans 1 .. plans-1 with plan 0, `pairs` good ones each. A pair with an interrupted sample is
/// dropped and taken again; a plan that has fewer than four fifths of its pairs after three times as many
/// were taken is `noisy`. Element 0 is the baseline with itself: its own samples. `process`, which of a
/// comparison's this is, decides the order of the groups, and who stands on which side first.
std::vector<PairSeries> time_pairs(int plans, int pairs, const Turn& turn, int process);

/// Samples that time_pairs() takes where none is dropped.
int samples_of_pairs(int plans, int pairs);
/// Whether so many of the pairs wanted are enough for a time.
bool are_enough_pairs(std::size_t taken, int wanted);

}  // namespace fusetune::measure
