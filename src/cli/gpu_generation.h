// generate --target cuda|hip: sources of GPU kernels, and what NVRTC makes of them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "block/problem.h"
#include "cli/output.h"
#include "lower/gpu_schedule.h"
#include "plan/fusion_plan.h"

namespace fusetune::cli {

struct GpuGeneration {
  std::string target;                          // cuda or hip
  std::string architecture;                    // --arch: "sm_90a", "all", or empty for the default
  std::string out;                             // directory; empty: print
  std::optional<lower::GpuSchedule> schedule;  // one for all variants; none: each one's default
  bool standalone = false, compile = false;
  int jobs = 0;
  double compile_timeout = 0;  // seconds per kernel
  std::vector<plan::SegmentVariant> variants;
  block::Problem problem;
  RowsOutput output;
};

/// Writes, prints or compiles what is asked for, for one architecture after the other; returns the exit code.
int generate_for_gpu(const GpuGeneration& what);

}  // namespace fusetune::cli
