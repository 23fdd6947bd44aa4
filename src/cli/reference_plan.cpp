#include "cli/reference_plan.h"

#include <fmt/core.h>

#include <utility>

#include "base/log.h"
#include "cli/plan_job.h"
#include "search/space.h"

namespace fusetune::cli {
namespace {

constexpr std::size_t kHashDigits = 12;  // of a text that people read

}  // namespace

AllFusedReference::AllFusedReference(measure::Session& session) : session_(session) {
  const search::Space space = search::segment_space(session.problem(), session.target());
  const plan::SegmentVariant variant = plan::FusionPlan::from_mask(plan::FusionMask{0}).variants().front();
  const std::vector<lower::AnySchedule> schedules = space.schedules(plan::variant_index(variant), {});
  if (schedules.empty()) return;
  source_.push_back(codegen::generate(variant, schedules.front(), session.problem(), session.target()));
  hash_ = sources_hash(source_).substr(0, kHashDigits);
}

measure::PlanKernels AllFusedReference::compile() const {
  if (source_.empty()) return {};
  backend::CompileResult result = std::move(session_.compile(source_).front());
  if (result.status == backend::CompileResult::Status::ok) return {std::move(result.kernel)};
  base::note(fmt::format("plans are timed by themselves, as the one to time them beside has no kernel: {}",
                         result.log.substr(0, result.log.find('\n'))));
  return {};
}

}  // namespace fusetune::cli
