// Compiles translation units of GPU kernels for the emulator.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/cpu/kernel_compiler.h"
#include "backend/simt/kernel_library.h"

namespace fusetune::backend::simt {

struct LibraryOptions {
  int jobs = 0;                           // compilers at the same time; 0: one per CPU
  double timeout_seconds = 120;           // per compiler call
  std::filesystem::path cache_directory;  // empty: uncached (a temporary directory)
};

struct LibraryResult {
  std::shared_ptr<const KernelLibrary> library;  // null: it does not compile
  std::string log;     // the compiler's whole output and where the source was saved; empty with a library
  double seconds = 0;  // the compiler's time; 0: from the cache
};

/// The system's C++ compiler with the flags of one mode, and a cache of libraries by content.
class LibraryCompiler {
 public:
  /// Throws base::EnvironmentError when libraries can be written nowhere, or with unavailable_reason().
  LibraryCompiler(const cpu::Compiler& compiler, Mode mode, const LibraryOptions& options);
  ~LibraryCompiler();

  /// Compiles each text, a whole translation unit that includes nothing (C++17; abi.h, platform_simt.h and
  /// what the kernels need), and loads it. #line directives in it decide what findings call its parts. Result
  /// i belongs to units[i]. `progress(done, total)` is called from this thread. Throws
  /// base::EnvironmentError when the compiler cannot be started.
  std::vector<LibraryResult> compile(std::span<const std::string> units,
                                     const std::function<void(int, int)>& progress = {});
  LibraryResult compile(const std::string& unit);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Flags for a mode; `supported(flag)` says whether the compiler knows an optional one.
std::vector<std::string> kernel_flags(const cpu::Compiler& compiler, Mode mode,
                                      const std::function<bool(const std::string&)>& supported);

}  // namespace fusetune::backend::simt
