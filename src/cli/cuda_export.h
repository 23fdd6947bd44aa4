// export --backend cuda: what a GPU's bundle has that the CPU's has not.
#pragma once

#include <optional>
#include <string>

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

/// Kernels, cubins and how they were compiled; all but `emulated` of what `origin` lacks.
exporting::CudaBundleInput cuda_bundle(const exporting::BundleOrigin& origin,
                                       const measure::PlanKernels& kernels);

}  // namespace fusetune::cli
