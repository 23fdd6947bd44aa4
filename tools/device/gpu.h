// The GPU and the prepared tree: images become functions.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "backend/cuda/architecture.h"
#include "backend/cuda/driver.h"
#include "cuda/abi.h"
#include "image.h"
#include "lower/gpu_schedule.h"

namespace fusetune::device_check {

/// What kernels of one architecture are generated for: the same when the tree is prepared and when it is
/// used.
lower::GpuTarget target_of(const backend::cuda::Architecture& architecture);

/// A function with the name by which it failed.
struct LoadedKernel {
  backend::cuda::Function function;
  std::string symbol;
};

/// Median of repeated measurements.
struct Timing {
  double microseconds = 0;  // of one launch
  double spread = 0;        // interquartile range over the median
  int samples = 0;
};

class Gpu {
 public:
  /// `quick`: measure as little as possible (rehearsal). Throws base::EnvironmentError when there is no GPU,
  /// or the tree has no kernels for it.
  Gpu(const std::filesystem::path& tree, bool quick);

  const backend::cuda::Context& context() const { return context_; }
  const backend::cuda::DriverDevice& device() const { return context_.device(); }
  const backend::cuda::Architecture& architecture() const { return architecture_; }
  lower::GpuTarget target() const { return target_of(architecture_); }
  const std::filesystem::path& tree() const { return tree_; }
  bool quick() const { return quick_; }

  /// Loads an image once. Throws base::EnvironmentError for one that the tree does not have.
  LoadedKernel kernel(const Image& image, const std::string& symbol);
  /// Blocks that the whole device holds at once.
  std::int64_t resident_blocks(const LoadedKernel& kernel, int threads, std::int64_t shared_bytes) const;
  /// Asynchronous.
  void launch(const LoadedKernel& kernel, const backend::cuda::LaunchShape& shape, const ft_gpu_args& args);

  /// Times what `launch` begins, with CUDA events around as many launches as a sample needs.
  Timing time(const std::function<void()>& launch);

 private:
  backend::cuda::Context context_;
  std::filesystem::path tree_;
  backend::cuda::Architecture architecture_;
  bool quick_;
  std::map<std::string, std::unique_ptr<backend::cuda::Module>> modules_;  // by cubin name
};

}  // namespace fusetune::device_check
