// The block's memory in the emulator: tensors, weights, parameters and mask as generated kernels read them.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backend/simt/emulator.h"
#include "backend/simt/kernel_library.h"
#include "block/data.h"
#include "block/mask.h"
#include "block/problem.h"
#include "codegen/gpu_kernel.h"

namespace fusetune::backend::simt {

/// How a kernel is run.
struct RunOptions {
  int resident_blocks = 5;  // the grid has at most as many blocks: few, so that each has several tasks
  ThreadOrder order = ThreadOrder::forward;
  std::uint32_t seed = 1;
  double timeout_seconds = 60;
  LaunchCounts* counts = nullptr;  // of LaunchOptions
};

/// Owns every buffer a plan of one problem needs, in the problem's dtype.
class SimtBlock {
 public:
  /// `data` is copied. Throws base::EnvironmentError when memory is short.
  SimtBlock(const block::Problem& problem, const block::Mask& mask, const block::BlockData& data);
  ~SimtBlock();

  /// `values` in the tensor's shape, rounded to what it is stored as.
  void write(block::Tensor tensor, std::span<const double> values);
  std::vector<float> read(block::Tensor tensor) const;

  /// Runs one kernel on what its live-in tensors hold; what it writes is NaN before. Findings: the
  /// emulator's, outputs that were left unwritten (checked libraries), counters that were not put back to
  /// zero.
  std::optional<Finding> run(const codegen::GpuKernel& source, const Kernel& kernel,
                             const RunOptions& options);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fusetune::backend::simt
