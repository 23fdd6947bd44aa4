// A whole plan on its way to being timed: its kernels' sources, then the kernels, and its record.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "backend/compiled_kernel.h"
#include "cli/searcher.h"
#include "codegen/any_kernel.h"
#include "measure/session.h"
#include "plan/fusion_plan.h"
#include "store/records.h"
#include "store/tuning_store.h"

namespace fusetune::cli {

struct PlanJob {
  plan::FusionPlan plan;
  std::vector<codegen::AnyKernel> sources;
  measure::PlanKernels kernels;  // after compile_plans(), where all compiled
  store::PlanRecord record;
};

using ScheduleOf = std::function<std::optional<lower::AnySchedule>(int variant)>;

/// Its record has everything but a measurement. Throws base::InternalError where a segment has no schedule
/// and base::UsageError where one is refused.
PlanJob make_plan_job(const plan::FusionPlan& plan, const ScheduleOf& schedule_of,
                      const measure::Session& session, const SearchSettings& settings);

/// Each kernel once for all plans. A plan whose kernels did not all compile gets the failure as its
/// measurement, the others the outcome `ok` without a time. Returns the results, for their compile times.
/// Throws Interrupted.
std::vector<backend::CompileResult> compile_plans(measure::Session& session, std::vector<PlanJob>& jobs,
                                                  const std::function<void(int, int)>& progress = {});

/// A claim that is never `held`: while another search measures this very candidate it is waited for, and its
/// answer is as good as ours. Throws Interrupted.
store::Claim claim_in_turn(store::TuningStore& store, const store::TuningRecord& record,
                           store::ClaimPolicy policy);
store::PlanClaim claim_in_turn(store::TuningStore& store, const store::PlanRecord& record,
                               store::ClaimPolicy policy);

/// What a candidate that never ran is stored as.
measure::Measurement failure(measure::Outcome outcome, const std::string& message);
measure::Outcome outcome_of(backend::CompileResult::Status status);
/// What a segment's measurement is known by in the database.
store::SegmentKey segment_key(int variant, const codegen::AnyKernel& source, const measure::Session& session,
                              const SearchSettings& settings);
/// What a plan's measurements belong to: its kernels' source hashes and weight layouts.
std::string sources_hash(std::span<const codegen::AnyKernel> kernels);

}  // namespace fusetune::cli
