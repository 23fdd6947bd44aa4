// A segment of a launch sequence, ready to be launched: a kernel of ours, or the vendor's matrix product.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/compiled_kernel.h"
#include "backend/cuda/cublaslt.h"
#include "backend/cuda/cuda_block.h"
#include "backend/cuda/driver.h"

namespace fusetune::backend::cuda {

/// What the segments of a sequence share, one running at a time.
struct Workspace {
  GuardedDeviceBuffer scratch;
  DeviceBuffer sync;  // counters: zero between launches
  std::int64_t sync_words = 0;
};

class LoadedSegment {
 public:
  virtual ~LoadedSegment() = default;
  virtual plan::SegmentVariant variant() const = 0;
  virtual const std::string& symbol() const = 0;
  virtual const std::vector<block::Weight>& weights() const = 0;
  /// Of the workspace that it is launched with, at least.
  virtual std::int64_t scratch_bytes() const = 0;
  virtual std::int64_t sync_words() const = 0;
  /// Asynchronous, on `stream`, with weight copy `copy`. Throws DeviceError.
  virtual void launch(const Stream& stream, CudaBlock& block, const Workspace& workspace, int copy) const = 0;
};

/// Loads a compiled kernel for a batch. Throws DriverError, and DeviceError where it needs more of a resource
/// than the device has.
std::unique_ptr<LoadedSegment> load_kernel(const Context& context, const CompiledKernel& compiled,
                                           std::int64_t batch);

/// Asks the library how it computes a product, and has it done once, into `block`: what the library loads at
/// its first use cannot be loaded while a graph is captured. Throws DeviceError where it offers no way.
std::unique_ptr<LoadedSegment> load_product(const Context& context, const Stream& stream,
                                            const CublasLt& library, CudaBlock& block,
                                            const codegen::LibraryProduct& product);

}  // namespace fusetune::backend::cuda
