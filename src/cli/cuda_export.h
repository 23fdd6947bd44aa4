// export --backend cuda: what a GPU's bundle has that the CPU's has not.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/compiled_kernel.h"
#include "cli/schedule_option.h"
#include "export/cuda_bundle.h"
#include "measure/session.h"

namespace fusetune::cli {

/// The emulator's answer about a plan's kernels.
struct Emulated {
  std::optional<exporting::EmulatorVerdict> verdict;
  std::string finding;  // where there is no verdict
};

struct EmulationLimits {
  int jobs = 0;                // compilers at once
  double compile_timeout = 0;  // seconds per kernel
  double run_timeout = 0;      // seconds per kernel
};

/// Runs each kernel on the reference's inputs, then the plan, with every access looked at; at batch 1 where
/// the mask can be had for it. Throws base::EnvironmentError where there is no emulator.
Emulated emulate(const block::Problem& problem, const measure::PlanKernels& kernels,
                 const EmulationLimits& limits);

/// `target` as a bundle has it: the vendor's library of matrix products is not in one.
lower::Target bundle_target(lower::Target target);

/// Gives segments of `plan` that a library computes (product=library) what `without_library` has for them,
/// and returns which they were. Throws base::UsageError where the user gave such a schedule.
std::vector<plan::SegmentVariant> replace_library(const plan::FusionPlan& plan, ScheduleTable& schedules,
                                                  const ScheduleTable& without_library);

/// A plan compiled for an architecture where there is no GPU.
struct CompiledForCuda {
  std::unique_ptr<backend::DeviceCompiler> compiler;  // the images live as long
  measure::PlanKernels kernels;
  std::map<std::string, std::string> environment;
};

/// What schedules have to fit on a GPU of this architecture ("sm_90a"). Throws base::UsageError.
lower::GpuTarget cuda_target(const std::string& architecture);

/// Throws base::EnvironmentError where there is no NVRTC or it refuses a kernel, base::UsageError for an
/// architecture that it does not know and for a schedule that cannot run there.
CompiledForCuda compile_for_cuda(const block::Problem& problem, const plan::FusionPlan& plan,
                                 const ScheduleTable& schedules, const std::string& architecture,
                                 const EmulationLimits& limits);

/// Kernels, cubins and how they were compiled; all but `emulated` of what `origin` lacks. `replaced`: of
/// replace_library().
exporting::CudaBundleInput cuda_bundle(const exporting::BundleOrigin& origin,
                                       const measure::PlanKernels& kernels,
                                       std::span<const plan::SegmentVariant> replaced = {});

}  // namespace fusetune::cli
