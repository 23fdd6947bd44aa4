// Which generated kernels are checked and which are timed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "block/problem.h"
#include "codegen/gpu_kernel.h"
#include "lower/gpu_schedule.h"
#include "plan/fusion_plan.h"

namespace fusetune::device_check {

/// One kernel and the masks it is checked with (a kernel does for any mask).
struct FamilyCase {
  codegen::GpuKernel kernel;
  block::Problem problem;  // its mask is the first
  std::vector<block::MaskSpec> masks;
};
/// Every kind of kernel that codegen::generate_gpu() writes, on sizes that no tile divides, and those that
/// keep rows on chip on a real model's.
std::vector<FamilyCase> family_cases(block::Dtype dtype, const lower::GpuTarget& target, bool quick);

/// A whole plan with a schedule for each of its segments, and the problem that it is checked on.
struct PlanCase {
  plan::FusionPlan plan;
  block::Problem problem;
  std::vector<codegen::GpuKernel> kernels;
};
/// Thirty plans of random masks (three where `quick`) with random kinds of schedules, the same ones every
/// time; dtypes and attention masks in turn.
std::vector<PlanCase> plan_cases(const lower::GpuTarget& target, bool quick);

/// A kernel to time, for one problem; several problems may share it.
struct TimedCase {
  std::string name;  // "[0] 128x2304x768", "causal attention 1x1024"
  codegen::GpuKernel kernel;
  block::Problem problem;
};
/// Groups of figures that belong together.
inline constexpr std::string_view kTimedGroups[] = {"gemm", "attention", "segments"};
/// All cases of a group, those of one name together. f16, and some products in bf16 and float32.
std::vector<TimedCase> timed_cases(std::string_view group, const lower::GpuTarget& target, bool quick);

/// Every kernel that these stages run; no stages: that any runs.
std::vector<codegen::GpuKernel> all_kernels(const lower::GpuTarget& target, bool quick,
                                            std::span<const std::string> stages);

}  // namespace fusetune::device_check
