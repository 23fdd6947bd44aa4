#include "cli/plan_kernels.h"

#include <fmt/core.h>

#include <set>

#include "base/error.h"
#include "cli/progress.h"

namespace fusetune::cli {

std::vector<plan::SegmentVariant> distinct_variants(std::span<const plan::FusionPlan> plans) {
  std::set<plan::SegmentVariant> distinct;
  for (const plan::FusionPlan& plan : plans)
    for (const plan::SegmentVariant& variant : plan.variants()) distinct.insert(variant);
  return {distinct.begin(), distinct.end()};
}

std::vector<backend::CompileResult> compile(measure::Session& session,
                                            std::span<const Candidate> candidates) {
  std::vector<codegen::AnyKernel> sources;
  sources.reserve(candidates.size());
  for (const Candidate& candidate : candidates)
    sources.push_back(
        codegen::generate(candidate.variant, candidate.schedule, session.problem(), session.target()));
  return session.compile(sources, Progress("compiling"));
}

PlanCompiler::PlanCompiler(measure::Session& session, std::span<const plan::FusionPlan> plans,
                           const ScheduleTable& schedules) {
  std::vector<Candidate> candidates;
  for (const plan::SegmentVariant& variant : distinct_variants(plans))
    candidates.push_back({variant, schedules(variant)});
  const auto results = compile(session, candidates);
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (results[i].status != backend::CompileResult::Status::ok)
      throw base::EnvironmentError(fmt::format("compiling the kernel of {} ({}) failed:\n{}",
                                               candidates[i].variant.to_string(),
                                               candidates[i].schedule.to_string(), results[i].log));
    compiled_.emplace(candidates[i].variant, results[i].kernel);
  }
}

measure::PlanKernels PlanCompiler::kernels(const plan::FusionPlan& plan) const {
  measure::PlanKernels kernels;
  for (const plan::SegmentVariant& variant : plan.variants()) kernels.push_back(compiled_.at(variant));
  return kernels;
}

std::string describe(const ScheduleTable& schedules, std::span<const plan::SegmentVariant> variants) {
  std::map<std::string_view, int> counts;
  for (const plan::SegmentVariant& variant : variants) ++counts[schedules.origin(variant)];
  std::string text = "schedules:";
  for (const auto& [origin, count] : counts)
    text += fmt::format("{} {} {}", text.back() == ':' ? "" : ",", count, origin);
  return text;
}

}  // namespace fusetune::cli
