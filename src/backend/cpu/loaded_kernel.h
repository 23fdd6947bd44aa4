// A compiled kernel brought into this process.
#pragma once

#include <memory>

#include "backend/cpu/kernel_compiler.h"
#include "backend/cpu/runner.h"

namespace fusetune::backend::cpu {

/// A kernel in this process. Kernels whose libraries have the same content share one; it is unloaded with the
/// last of them. Thread-safe to construct and destroy.
class LoadedKernel {
 public:
  /// Loads a private copy of the library's bytes as they are now, never the old code of a rebuilt path.
  /// Throws base::EnvironmentError when the library is missing, damaged, needs what is not there, or lacks
  /// the kernel.
  explicit LoadedKernel(const CompiledKernel& kernel);
  ~LoadedKernel();
  LoadedKernel(LoadedKernel&&) noexcept;
  LoadedKernel& operator=(LoadedKernel&&) noexcept;

  SegmentFunction function() const;
  const codegen::KernelSource& source() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fusetune::backend::cpu
