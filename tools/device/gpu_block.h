// The block's memory on a GPU, with what a kernel needs besides to be launched: workspace, counters, a grid.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/cuda/cuda_block.h"
#include "gpu.h"

namespace fusetune::device_check {

/// A kernel ready to be launched.
struct BoundKernel {
  LoadedKernel kernel;
  codegen::GpuLaunch needs;
  backend::cuda::LaunchShape shape;
  ft_gpu_args args;
};

/// Owns every buffer that kernels of one problem need, in the problem's dtype.
class GpuBlock {
 public:
  /// `data` is copied. Throws backend::cuda::DriverError when memory is short.
  GpuBlock(Gpu& gpu, const block::Problem& problem, const block::Mask& mask, const block::BlockData& data);

  /// `values` in the tensor's shape, rounded to what it is stored as.
  void write(block::Tensor which, std::span<const float> values) { block_.write(which, values); }
  void write(block::Tensor which, std::span<const double> values) { block_.write(which, values); }
  std::vector<float> read(block::Tensor which) { return block_.read(which); }

  /// Buffers and a grid for a kernel; valid until the next bind(). The grid has as many blocks as the kernel
  /// has tasks, as many as are resident at once where it is cooperative.
  BoundKernel bind(const codegen::GpuKernel& source);
  /// Runs it once on what its live-in tensors hold; what it writes is NaN before. Returns what is wrong with
  /// what it left behind: counters, bytes outside of its tensors. Throws backend::cuda::DriverError.
  std::optional<std::string> run(const codegen::GpuKernel& source);

 private:
  std::optional<std::string> find_leftovers(const codegen::GpuLaunch& needs);

  Gpu& gpu_;
  block::Problem problem_;
  backend::cuda::CudaBlock block_;
  backend::cuda::GuardedDeviceBuffer scratch_;
  backend::cuda::DeviceBuffer sync_;
};

}  // namespace fusetune::device_check
