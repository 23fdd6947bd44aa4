// Who compiles for CUDA: NVRTC, or one that is not here, by what it left in a cache.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/cuda/nvrtc.h"

namespace fusetune::backend::cuda {

/// What decides an image besides its source and options; enough to find in a cache what it compiled.
struct CompilerRelease {
  std::string identity;  // Nvrtc::identity()
  int major = 0;
  int minor = 0;
  std::vector<int> architectures;  // Nvrtc::architectures()

  /// "13.0".
  std::string version() const;
  /// For a cache's file of it; parse() is its inverse, and gives nothing for any other text.
  std::string to_text() const;
  static std::optional<CompilerRelease> parse(std::string_view text);

  bool operator==(const CompilerRelease&) const = default;
};

struct CudaCompiler {
  /// Implicit: an NVRTC is the ordinary case.
  CudaCompiler(Nvrtc opened);  // NOLINT(google-explicit-constructor)
  /// `reason`: why there is no NVRTC.
  CudaCompiler(CompilerRelease known, std::string reason)
      : release(std::move(known)), missing(std::move(reason)) {}

  CompilerRelease release;
  std::optional<Nvrtc> nvrtc;  // none: images are found in the cache or not at all
  std::string missing;         // why there is none
};

/// NVRTC; where none can be opened, the newest release that the cache in this directory states. Throws
/// base::EnvironmentError, as Nvrtc() does, where the cache states none either.
CudaCompiler open_compiler(const std::filesystem::path& cache_directory);

}  // namespace fusetune::backend::cuda
