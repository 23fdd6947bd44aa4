// evaluate --audit: whether the audit of what `guided` prunes tells the truth, seen where the truth is
// recorded.
#pragma once

#include <cstdint>
#include <string>

#include "report/table.h"
#include "store/contents.h"

namespace fusetune::cli {

/// A row for each problem of `contents` (of one environment and cache mode) whose recorded kernels make a
/// plan, and one for all together: `guided` is replayed on the kernels `repeats` times, with seeds counted up
/// from `seed`, to its own end. Kernels timed in the mean; by sums of kernels the mean and worst regret; the
/// mean of the probability that the audit gives for more than 1 % being lost, and the share of the replays in
/// which more was. A probability that the audit does not know counts as 1; where nothing was pruned it is 0.
/// What is left out is said on standard error, `source` first.
report::Table audit_calibration(const store::Contents& contents, const std::string& source, int repeats,
                                std::uint64_t seed);

}  // namespace fusetune::cli
