#include "codegen/any_kernel.h"

#include "base/error.h"

namespace fusetune::codegen {

std::string AnyKernel::layouts() const {
  std::string text;
  if (cpu() == nullptr) return text;
  for (int i = 0; i < block::kWeightCount; ++i) {
    const auto& layout = cpu()->layouts[static_cast<std::size_t>(i)];
    if (!layout) continue;
    text += (text.empty() ? "" : " ") + std::string(block::name(static_cast<block::Weight>(i))) + "=" +
            layout->to_string();
  }
  return text;
}

AnyKernel generate(const plan::SegmentVariant& variant, const lower::AnySchedule& schedule,
                   const block::Problem& problem, const lower::Target& target) {
  if (const auto* cpu = std::get_if<lower::CpuTarget>(&target); cpu != nullptr && schedule.cpu() != nullptr)
    return generate_cpu(variant, *schedule.cpu(), problem, *cpu);
  if (const auto* gpu = std::get_if<lower::GpuTarget>(&target); gpu != nullptr && schedule.gpu() != nullptr) {
    if (schedule.gpu()->product == lower::GpuProduct::library)
      return generate_library(variant, *schedule.gpu(), problem, *gpu);
    return generate_gpu(variant, *schedule.gpu(), problem, *gpu);
  }
  throw base::InternalError("the schedule " + schedule.to_string() + " is of another kind than its target");
}

}  // namespace fusetune::codegen
