// Generated kernels of every kind of device, and what a library does instead of one, under one type: what is
// compiled, measured and recorded.
//
// Who compiles or launches one asks for the kind it knows: cpu(), gpu() or library().
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "codegen/gpu_kernel.h"
#include "codegen/kernel_source.h"
#include "codegen/library_product.h"
#include "lower/any_schedule.h"

namespace fusetune::codegen {

class AnyKernel {
 public:
  AnyKernel() = default;
  AnyKernel(KernelSource kernel) : value_(std::move(kernel)) {}      // NOLINT(google-explicit-constructor)
  AnyKernel(GpuKernel kernel) : value_(std::move(kernel)) {}         // NOLINT(google-explicit-constructor)
  AnyKernel(LibraryProduct product) : value_(std::move(product)) {}  // NOLINT(google-explicit-constructor)

  /// Null where it is of another kind.
  const KernelSource* cpu() const { return std::get_if<KernelSource>(&value_); }
  const GpuKernel* gpu() const { return std::get_if<GpuKernel>(&value_); }
  const LibraryProduct* library() const { return std::get_if<LibraryProduct>(&value_); }

  const plan::SegmentVariant& variant() const {
    return std::visit(
        [](const auto& kernel) -> auto& { return kernel.variant; }, value_);
  }
  lower::AnySchedule schedule() const {
    return std::visit([](const auto& kernel) { return lower::AnySchedule(kernel.schedule); }, value_);
  }
  /// Unique; of the function in the compiled image, if there is one.
  const std::string& symbol() const {
    return std::visit(
        [](const auto& kernel) -> auto& { return kernel.symbol; }, value_);
  }
  /// Of everything that could change the machine code but the compiler and its flags; of the call, where a
  /// library's code runs.
  const std::string& hash() const {
    return std::visit(
        [](const auto& kernel) -> auto& { return kernel.hash; }, value_);
  }
  /// Live-in tensors; live-out ones; those that it spills.
  const std::vector<block::Tensor>& reads() const {
    return std::visit(
        [](const auto& kernel) -> auto& { return kernel.reads; }, value_);
  }
  const std::vector<block::Tensor>& writes() const {
    return std::visit(
        [](const auto& kernel) -> auto& { return kernel.writes; }, value_);
  }
  const std::vector<block::Tensor>& workspace() const {
    return std::visit(
        [](const auto& kernel) -> auto& { return kernel.workspace; }, value_);
  }
  /// Of the weights that it reads packed: "w_qkv=panel16g64 w_out=panel16"; empty where none is. Part of
  /// every measurement's key.
  std::string layouts() const;

 private:
  std::variant<KernelSource, GpuKernel, LibraryProduct> value_;
};

/// generate_cpu(), generate_gpu() or generate_library(), as target and schedule say. Throws base::UsageError
/// for a schedule that lower::refuse() refuses, naming its reason.
AnyKernel generate(const plan::SegmentVariant& variant, const lower::AnySchedule& schedule,
                   const block::Problem& problem, const lower::Target& target);

}  // namespace fusetune::codegen
