#include "cli/reference_plan.h"

#include "base/log.h"
#include "cli/interrupt.h"
#include "cli/plan_job.h"
#include "search/space.h"

namespace fusetune::cli {
namespace {

constexpr std::size_t kHashDigits = 12;  // of a text that people read

}  // namespace

AllFusedReference::AllFusedReference(measure::Session& session) : session_(session) {
  const search::Space space = search::segment_space(session.problem(), session.target());
  const auto all_fused = plan::FusionPlan::from_mask(plan::FusionMask{0});
  for (const plan::SegmentVariant& variant : all_fused.variants()) {
    const std::vector<lower::Schedule> schedules = space.schedules(plan::variant_index(variant), {});
    if (schedules.empty()) {  // then no plan runs
      sources_.clear();
      return;
    }
    sources_.push_back(
        codegen::generate_cpu(variant, schedules.front(), session.problem(), session.target()));
  }
  hash_ = sources_hash(sources_).substr(0, kHashDigits);
}

measure::PlanKernels AllFusedReference::compile() const {
  measure::PlanKernels kernels;
  for (backend::cpu::CompileResult& result :
       session_.compile(sources_, [](int, int) { stop_if_interrupted(); })) {
    if (result.status != backend::cpu::CompileResult::Status::ok) {
      base::note(
          "the plan that others are to be timed beside does not compile; they are timed by themselves");
      return {};
    }
    kernels.push_back(std::move(result.kernel));
  }
  return kernels;
}

}  // namespace fusetune::cli
