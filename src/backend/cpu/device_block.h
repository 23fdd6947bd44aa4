// The block's memory on the CPU device: guarded tensors, packed weights in rotating copies, parameters, mask.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/cpu/loaded_kernel.h"
#include "backend/cpu/runner.h"
#include "block/data.h"
#include "block/mask.h"
#include "block/problem.h"

namespace fusetune::backend::cpu {

/// Owns every buffer a plan of one problem needs. All activations are 64-byte aligned, exactly as long as
/// their shape says, and surrounded by guard bytes.
class DeviceBlock {
 public:
  /// `threads`: how many threads kernels are called with. `data` is copied; `hidden` starts with its input,
  /// every other tensor with NaN. Throws base::UsageError for a dtype other than f32, which is all that this
  /// version's CPU kernels run, and base::EnvironmentError when memory is short.
  DeviceBlock(const block::Problem& problem, const block::Mask& mask, const block::BlockData& data,
              int threads);
  ~DeviceBlock();
  DeviceBlock(DeviceBlock&&) noexcept;
  DeviceBlock& operator=(DeviceBlock&&) noexcept;

  /// Allocated and filled with NaN at first use, as all tensors are. Not thread-safe.
  float* tensor(block::Tensor tensor);
  std::span<const float> tensor_view(block::Tensor tensor) const;
  /// `values` in the tensor's shape, converted to the dtype. Throws base::InternalError for another length.
  void write(block::Tensor tensor, std::span<const double> values);
  void poison(block::Tensor tensor);  // NaN everywhere
  /// Empty when all guard bytes are intact; else the buffers whose guards were overwritten, by name and side:
  /// "norm1 (after its end), scratch (after its end)". They are whole again afterwards, so that the next
  /// kernel is not blamed.
  std::string check_guards() const;

  /// Rotating weight copies: total bytes all copies of the weights of a launch sequence should span, so that
  /// weights come from where they would in a real model. 0: one copy. The number of copies is limited so that
  /// they take at most an eighth of the memory.
  void set_rotation_bytes(std::int64_t bytes);

  /// Arguments of `kernel` using weight copy number `copy` (modulo the copies there are). Packs weights and
  /// grows scratch as needed (untimed); the pointer stays valid for the block's life. Tensors that the kernel
  /// does not declare are null. Copies that other kernels used least recently may be dropped to make room:
  /// their arguments then point to copy 0 until they are asked for again, so ask for all arguments of a
  /// launch sequence before timing it.
  const ft_args* arguments(const LoadedKernel& kernel, int copy = 0);
  /// Number of distinct copies arguments() can give for this sequence of kernels.
  int copies(std::span<const LoadedKernel* const> kernels) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fusetune::backend::cpu
