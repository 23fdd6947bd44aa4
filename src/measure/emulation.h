// Generated GPU kernels, checked against the oracle in the emulator: no GPU, no timing.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "backend/simt/library_compiler.h"
#include "backend/simt/simt_block.h"
#include "measure/check.h"

namespace fusetune::measure {

struct EmulationOptions {
  backend::simt::Mode mode = backend::simt::Mode::fast;
  backend::simt::RunOptions run;
};

/// A kernel as text, with its library.
struct EmulatedKernel {
  codegen::GpuKernel source;
  std::shared_ptr<const backend::simt::KernelLibrary> library;
};

/// One problem's data, oracle and memory. For use from one thread.
///
/// Kernels of the 16-bit dtypes are compared with a reference that rounds where tensors are stored: its
/// values are exactly what a segment gets as its inputs, however large the logits.
class Emulation {
 public:
  /// Computes the oracle. Throws base::EnvironmentError when memory is short.
  Emulation(const block::Problem& problem, const block::BlockData& data, const EmulationOptions& options);
  ~Emulation();

  /// One segment on the oracle's inputs: all its live-out tensors.
  CheckResult check_segment(const EmulatedKernel& kernel);
  /// A whole plan, kernel after kernel through the same memory, from `hidden` to `output`.
  CheckResult check_plan(std::span<const EmulatedKernel> kernels);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fusetune::measure
