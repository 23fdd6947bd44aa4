#include "cli/final_times.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "search/certificate.h"

namespace fusetune::cli {
namespace {

/// Half of the 95 % interval of the median.
double half_interval_us(const measure::TimingSummary& time) {
  return 1.96 * search::median_error(time.mad_us, std::max(1, time.count));
}

}  // namespace

plan::FusionPlan plan_of(const store::ComparisonRecord& finalist) {
  return plan::FusionPlan::from_mask(plan::FusionMask{finalist.plan.mask});
}

bool is_ok(const store::ComparisonRecord& finalist) {
  return finalist.plan.measurement.outcome == measure::Outcome::ok;
}

FinalTime time_of(const FinalResult& result, const store::ComparisonRecord& finalist) {
  const measure::TimingSummary& baseline = result.finalists.front().plan.measurement.time;
  if (&finalist == &result.finalists.front()) {
    const double half = half_interval_us(baseline);
    return {baseline.median_us, baseline.median_us - half, baseline.median_us + half};
  }
  return {baseline.median_us * finalist.ratio, baseline.median_us * finalist.low,
          baseline.median_us * finalist.high};
}

std::optional<std::pair<double, double>> whole_over_sum(const FinalResult& result) {
  double low = std::numeric_limits<double>::infinity(), high = 0;
  for (const store::ComparisonRecord& finalist : result.finalists) {
    if (!finalist.whole_over_sum || plan_of(finalist).kernel_count() == 1) continue;
    low = std::min(low, finalist.whole_over_sum->ratio);
    high = std::max(high, finalist.whole_over_sum->ratio);
  }
  if (high == 0) return std::nullopt;
  return std::pair{low, high};
}

nlohmann::json number_or_null(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json();
}

}  // namespace fusetune::cli
