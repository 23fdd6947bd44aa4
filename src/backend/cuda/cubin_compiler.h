// Turns CUDA C++ into cubins with NVRTC, through a content-addressed cache. Needs no GPU and no driver;
// without NVRTC it finds what is in the cache.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/compile_status.h"
#include "backend/cuda/architecture.h"
#include "backend/cuda/cuda_compiler.h"
#include "backend/cuda/ptxas_log.h"

namespace fusetune::backend::cuda {

/// One translation unit with one kernel; self-contained, as NVRTC is given no include directory.
struct CubinSource {
  std::string name;    // for people and the compiler's messages
  std::string symbol;  // the extern "C" kernel in it
  std::string text;
  Architecture architecture;
};

struct CubinResult {
  using Status = CompileStatus;
  Status status = Status::ok;
  std::string cubin;          // ok only: the image's bytes
  KernelResources resources;  // ok only
  double compile_seconds =
      0;  // wall clock of its compile; 0: from the cache, or the same as an earlier source
  /// The compiler's whole output, the same from the cache; when it is not ok, before it what failed, where
  /// the source was saved and a command that repeats the failure.
  std::string log;
};

struct CubinOptions {
  int jobs = 0;                           // threads that compile; 0: CPUs, limited by memory
  double timeout_seconds = 120;           // per compile; 0: none; without effect in NVRTC that cannot cancel
  bool line_info = false;                 // -lineinfo: source lines for profilers
  std::filesystem::path cache_directory;  // empty: uncached
};

/// Safe to use from several threads, and any number of processes may share a cache directory.
class CubinCompiler {
 public:
  CubinCompiler(CudaCompiler compiler, CubinOptions options);
  ~CubinCompiler();

  /// Compiles all, equal sources once; result i belongs to sources[i]. A source that does not compile is a
  /// value, and so is one that the cache lacks where there is no NVRTC (`unavailable`). `progress(done,
  /// total)` is called from this thread. A cache that cannot be written is noted once and compiled without.
  /// Throws base::UsageError for an architecture that NVRTC does not list, base::EnvironmentError when NVRTC
  /// itself fails, and what `progress` throws; running compiles then end first.
  std::vector<CubinResult> compile(std::span<const CubinSource> sources,
                                   const std::function<void(int, int)>& progress = {});

  /// How many of these compile() would have to compile, equal ones once: those that the cache lacks. Without
  /// NVRTC, how many it refuses.
  std::size_t count_missing(std::span<const CubinSource> sources) const;

  /// What a source is compiled with, in order; recorded with results.
  std::vector<std::string> options(const Architecture& architecture) const;
  /// The compiler's, here or not.
  const CompilerRelease& release() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fusetune::backend::cuda
