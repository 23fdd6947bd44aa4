// evaluate --sums: recorded plans against the sums of their kernels, and what a model of some of them leaves.
#pragma once

#include <cstdint>
#include <string>

#include "report/table.h"
#include "store/contents.h"

namespace fusetune::cli {

/// Plans from whose whole times the model is fitted: as many as `guided` times at most.
inline constexpr std::size_t kModelledPlans = 64;

/// A row for each problem of `contents` (of one environment and cache mode) that has plans drawn uniformly:
/// 5 %, 50 % and 95 % quantile of whole / sum and the share of plans within 5 % of their sum; then the same
/// of whole / (sum times the predicted whole / sum), over the plans that the model (search/plan_surrogate.h)
/// was not fitted to. Empty cells where there are no plans beyond those. A kernel's time is that of the
/// schedule that it has in the plan; plans with one not timed alone are left out and counted on standard
/// error, `source` first, as are times in other units. `seed` chooses what the model is fitted to.
report::Table whole_over_sums(const store::Contents& contents, const std::string& source, std::uint64_t seed);

}  // namespace fusetune::cli
