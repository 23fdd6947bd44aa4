// Turns KernelSources into shared objects with the system's C++ compiler, through a content-addressed cache.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/compile_status.h"
#include "backend/cpu/cpu_info.h"
#include "codegen/kernel_source.h"

namespace fusetune::backend::cpu {

struct Compiler {
  std::string path;
  std::string kind;     // "gcc" or "clang"
  std::string version;  // "12.2.0"
  std::string banner;   // first line of --version, with the distributor's revision
};
/// `requested`: --cxx, a name or path; empty: $CXX, c++, g++, clang++, versioned names. Throws
/// base::EnvironmentError naming what was tried and the package to install.
Compiler find_compiler(const std::string& requested);

/// The linker that `compiler` would use, called directly because that takes 4 ms where linking through the
/// compiler's driver takes 10 to 75 ms. Empty where it cannot be found: the driver links.
std::string find_linker(const Compiler& compiler);

/// Flags for `isa`: explicit feature flags (never -march=native, never -ffast-math), recorded with results.
std::vector<std::string> compile_flags(const Compiler& compiler, lower::Isa isa);

/// A kernel ready to load: value type, usable from another process for as long as the library's file exists:
/// for good in a cache directory, else for the life of the KernelCompiler that made it.
struct CompiledKernel {
  std::filesystem::path library;
  std::string symbol;
  codegen::KernelSource source;  // layouts, tensors, scratch
  double compile_seconds = 0;    // its share of the compiler's time; 0: from the cache
};

struct CompileResult {
  using Status = CompileStatus;
  Status status = Status::ok;
  CompiledKernel kernel;  // ok only
  std::string log;        // the compiler's whole output and where the source was saved; empty for ok
};

struct CompileOptions {
  int jobs = 0;                           // 0: CPUs, limited by memory
  double timeout_seconds = 120;           // per compiler call
  int kernels_per_unit = 16;              // candidates per translation unit
  std::filesystem::path cache_directory;  // empty: uncached (a temporary directory)
  std::int64_t memory_limit_bytes = 0;  // address space of one compiler process; 0: from the machine's memory
  /// Called a few times a second while compilers run, from the thread that waits for them. What it throws
  /// ends them and passes through.
  std::function<void()> poll = {};
};

/// How many compilers run at once, and the address space that each may take.
struct CompilerLimits {
  int jobs = 1;
  std::int64_t memory_bytes = 0;
};
/// `jobs` 0: one for each CPU, as far as each finds a gibibyte.
CompilerLimits compiler_limits(int jobs, const CpuInfo& cpu);

class KernelCompiler {
 public:
  KernelCompiler(Compiler compiler, lower::Isa isa, CompileOptions options);
  ~KernelCompiler();
  /// Compiles all; result i belongs to kernels[i]. A unit that fails is compiled again kernel by kernel, so
  /// that one bad kernel costs itself only. `progress(done, total)` is called from this thread; what it
  /// throws ends the compilers and passes through. Throws base::EnvironmentError when the compiler cannot be
  /// started or no library can be written anywhere.
  std::vector<CompileResult> compile(std::span<const codegen::KernelSource> kernels,
                                     const std::function<void(int, int)>& progress = {});
  /// How many compile() would have to compile, each kernel once: those that the cache lacks. Compiles none.
  std::size_t count_missing(std::span<const codegen::KernelSource> kernels) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fusetune::backend::cpu
