// The block's memory on a GPU: guarded tensors, weights in rotating copies, parameters and mask as generated
// kernels read them.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "backend/cuda/driver.h"
#include "block/data.h"
#include "block/mask.h"
#include "block/problem.h"
#include "codegen/gpu_kernel.h"
#include "cuda/abi.h"

namespace fusetune::backend::cuda {

/// Device memory between two strips of guard bytes, of which a kernel that writes outside changes some.
class GuardedDeviceBuffer {
 public:
  GuardedDeviceBuffer() = default;
  /// Every byte is 0xff, a NaN in every format. Throws DriverError when memory is short.
  GuardedDeviceBuffer(const Context& context, std::int64_t bytes);

  std::int64_t bytes() const { return bytes_; }
  /// 256-byte aligned, as kernels take it; null without memory.
  template <class T = void>
  T* pointer() const {
    return bytes_ == 0 ? nullptr : std::bit_cast<T*>(memory_.address() + kGuardBytes);
  }
  /// Exactly bytes() bytes.
  void write(const void* from);
  void read(void* to) const;
  void fill(unsigned char value);
  /// Whether bytes in front of it or behind it were changed; they are as they were afterwards.
  bool has_damaged_guards();

 private:
  static constexpr std::int64_t kGuardBytes = 256;
  void write_guards();

  DeviceBuffer memory_;
  std::int64_t bytes_ = 0;
};

/// Owns every buffer that kernels of one problem need, in the problem's dtype.
class CudaBlock {
 public:
  /// `data` is copied; `hidden` starts with its input, every other tensor with NaN at its first use. Throws
  /// DriverError when memory is short.
  CudaBlock(const Context& context, const block::Problem& problem, const block::Mask& mask,
            const block::BlockData& data);

  /// `values` in the tensor's shape, rounded to what it is stored as. Throws base::InternalError for another
  /// length.
  void write(block::Tensor which, std::span<const double> values);
  void write(block::Tensor which, std::span<const float> values);
  std::vector<float> read(block::Tensor which);
  void poison(block::Tensor which);
  /// Names of the tensors whose guard bytes were overwritten, "norm1, ffn_up"; empty: none.
  std::string check_guards();

  /// Copies of `weights` that together span `rotation_bytes`, at least one and no more than take an eighth of
  /// the device's memory. They are made here.
  int make_copies(std::span<const block::Weight> weights, std::int64_t rotation_bytes);
  /// What a kernel is launched with, but its workspace (scratch, sync), reading weight copy `copy`. Tensors
  /// that it does not declare are null.
  ft_gpu_args arguments(const codegen::GpuKernel& kernel, int copy);
  /// Where a tensor and a parameter lie, and copy `copy` of a weight, as arguments() has them.
  void* address(block::Tensor which) { return tensor(which).pointer(); }
  const void* address(block::Parameter which) const { return constants_.parameter[static_cast<int>(which)]; }
  const void* address(block::Weight which, int copy) const;

 private:
  template <class Value>
  void write_values(block::Tensor which, std::span<const Value> values);
  template <class Value>
  const Value* keep(std::span<const Value> values);
  void copy_mask(const block::Mask& mask);
  GuardedDeviceBuffer& tensor(block::Tensor which);

  const Context& context_;
  block::Problem problem_;
  ft_gpu_args constants_ = {};
  std::vector<DeviceBuffer> constant_memory_;
  std::array<std::vector<DeviceBuffer>, block::kWeightCount> weights_;  // [weight][copy]
  std::array<GuardedDeviceBuffer, block::kTensorCount> tensors_;
};

}  // namespace fusetune::backend::cuda
