// From plans to compiled kernels: what verify, run and bench have in common.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "cli/schedule_option.h"
#include "measure/session.h"
#include "plan/fusion_plan.h"

namespace fusetune::cli {

/// A segment variant with the schedule it is to run with.
struct Candidate {
  plan::SegmentVariant variant;
  lower::AnySchedule schedule;
  auto operator<=>(const Candidate&) const = default;
};

/// The distinct variants of some plans, in order.
std::vector<plan::SegmentVariant> distinct_variants(std::span<const plan::FusionPlan> plans);

/// Generates and compiles; result i belongs to candidates[i].
std::vector<backend::CompileResult> compile(measure::Session& session, std::span<const Candidate> candidates);

/// Compiled kernels of several plans, each distinct variant compiled once.
class PlanCompiler {
 public:
  /// Throws base::EnvironmentError with the compiler's log where a kernel does not compile, and
  /// base::UsageError where a schedule is refused.
  PlanCompiler(measure::Session& session, std::span<const plan::FusionPlan> plans,
               const ScheduleTable& schedules);
  measure::PlanKernels kernels(const plan::FusionPlan& plan) const;

 private:
  std::map<plan::SegmentVariant, backend::CompiledKernel> compiled_;
};

/// "schedules: 3 recorded, 1 default": where the schedules of a set of variants come from.
std::string describe(const ScheduleTable& schedules, std::span<const plan::SegmentVariant> variants);

}  // namespace fusetune::cli
