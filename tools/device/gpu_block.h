// The block's memory on a GPU: tensors, weights, parameters and mask as generated kernels read them.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "block/data.h"
#include "block/mask.h"
#include "block/problem.h"
#include "codegen/gpu_kernel.h"
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
  template <class Value>
  void write(block::Tensor which, std::span<const Value> values);
  std::vector<float> read(block::Tensor which) const;

  /// Buffers and a grid for a kernel; valid until the next bind(). The grid has as many blocks as the kernel
  /// has tasks, as many as are resident at once where it is cooperative.
  BoundKernel bind(const codegen::GpuKernel& source);
  /// Runs it once on what its live-in tensors hold; what it writes is NaN before. Returns what is wrong with
  /// what it left behind. Throws backend::cuda::DriverError.
  std::optional<std::string> run(const codegen::GpuKernel& source);

 private:
  void copy_mask(const block::Mask& mask);
  backend::cuda::DeviceBuffer& tensor(block::Tensor which);
  template <class Value>
  const Value* keep(std::span<const Value> values);
  std::optional<std::string> find_leftovers(const codegen::GpuLaunch& needs) const;

  Gpu& gpu_;
  block::Problem problem_;
  ft_gpu_args args_ = {};
  std::vector<backend::cuda::DeviceBuffer> constants_;
  std::array<backend::cuda::DeviceBuffer, block::kTensorCount> tensors_;
  backend::cuda::DeviceBuffer scratch_, sync_;
};

}  // namespace fusetune::device_check
