// Random plans against the oracle: what a kernel leaves behind is what the next one reads.
#include <fmt/format.h>

#include "cases.h"
#include "judge.h"
#include "stages.h"

namespace fusetune::device_check {

void check_plans(Gpu& gpu, Records& records) {
  Judges judges(gpu);
  int step = 0;
  for (const PlanCase& one : plan_cases(gpu.target(), gpu.quick())) {
    if (!records.begin_step(step++)) continue;
    const Verdict verdict = judges.of(one.problem).check_plan(one.kernels);
    std::string schedules;
    for (const codegen::GpuKernel& kernel : one.kernels)
      schedules += fmt::format("{}{}: {}", schedules.empty() ? "" : "; ", kernel.variant.to_string(),
                               kernel.schedule.to_string());
    nlohmann::ordered_json fields = {
        {"mask", one.plan.canonical_mask().value}, {"problem", one.problem.key()}, {"schedules", schedules}};
    verdict.add_to(fields);
    records.add(fmt::format("{} {}", one.plan.to_string(), one.problem.mask.to_string()), !verdict.wrong,
                fields);
  }
}

}  // namespace fusetune::device_check
