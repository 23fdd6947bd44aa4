// Times of finalists that may be compared with each other.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "cli/final_comparison.h"

namespace fusetune::cli {

plan::FusionPlan plan_of(const store::ComparisonRecord& finalist);
bool is_ok(const store::ComparisonRecord& finalist);

/// Time and interval of a finalist: the baseline's own, the others' by their ratio to it. Plans that were
/// clearly apart were timed for a shorter while, on a machine that may have been faster or slower then.
struct FinalTime {
  double us, low_us, high_us;
};
FinalTime time_of(const FinalResult& result, const store::ComparisonRecord& finalist);

/// Whole-plan time over the sum of its segments, smallest and largest over the finalists of several kernels.
std::optional<std::pair<double, double>> whole_over_sum(const FinalResult& result);

/// JSON knows no infinity.
nlohmann::json number_or_null(double value);

}  // namespace fusetune::cli
