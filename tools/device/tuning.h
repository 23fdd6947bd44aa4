// The problems that are tuned by the program itself, and the kernels that such a search asks for first.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backend/cuda/architecture.h"
#include "block/problem.h"
#include "codegen/gpu_kernel.h"

namespace fusetune::device_check {

struct TunedProblem {
  std::string_view stage;            // "tune-1x128"
  block::Problem problem;            // f16
  std::vector<std::string> options;  // the same problem on fusetune's command line
};
/// bert-base with a batch of 1 and 128 tokens, 8 and 512, 8 and 1024 under bigbird. `quick`: three masks of a
/// block that the emulator runs in a moment.
std::vector<TunedProblem> tuned_problems(bool quick);
/// The one of a stage. Throws base::InternalError for a stage that tunes nothing.
TunedProblem tuned_problem(std::string_view stage, bool quick);

/// What `search --strategy guided` begins with, so that it needs no compiler where it runs: the lone products
/// with all their schedules, the other segments of the reference plans with the default schedule for any tile
/// that a product may be found best with, all other variants with the default schedule before tiles are
/// tuned. `quick`: the unfused, all-fused and ByteTransformer's plans, one schedule each.
std::vector<codegen::GpuKernel> first_candidates(const block::Problem& problem,
                                                 const lower::GpuTarget& target, bool quick);

}  // namespace fusetune::device_check
