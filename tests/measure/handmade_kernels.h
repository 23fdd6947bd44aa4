// Small kernels written by hand, with and without faults: what a worker must survive.
#pragma once

#include <string>
#include <vector>

#include "block/problem.h"
#include "codegen/kernel_source.h"

namespace fusetune::measure {

/// Segment [6-6]: context [B,H,S,W] to merged [B,S,D]. Thread 0 runs `before`, all threads the work, then
/// thread 0 `after`. In scope there: `context`, `merged` (float*), `elements` of each, `args`.
codegen::KernelSource merge_heads_kernel(const block::Problem& problem, const std::string& symbol,
                                         const std::string& before = "", const std::string& after = "");

/// Segment [0-14]: the whole block by plain loops on thread 0, `repeats` times over, for mask `full`. Then
/// `after`, with `output` in scope.
codegen::KernelSource block_kernel(const block::Problem& problem, const std::string& symbol, int repeats = 1,
                                   const std::string& after = "");

}  // namespace fusetune::measure
