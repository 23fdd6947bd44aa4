// A compiled kernel of any kind of device, and the compilers that make them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "backend/compile_status.h"
#include "codegen/any_kernel.h"

namespace fusetune::backend {

/// A kernel ready to load: value type, usable from another process for as long as the image's file exists:
/// for good in a cache directory, else for the life of the compiler that made it.
struct CompiledKernel {
  codegen::AnyKernel source;
  std::filesystem::path image;  // shared library or cubin; empty for a library's product
  double compile_seconds = 0;   // its share of the compiler's time; 0: from the cache
};

struct CompileResult {
  using Status = CompileStatus;
  Status status = Status::ok;
  CompiledKernel kernel;  // ok only
  std::string log;        // the compiler's whole output and where the source was saved; empty for ok
};

/// The compiler of one device.
class DeviceCompiler {
 public:
  virtual ~DeviceCompiler() = default;
  /// Compiles all; result i belongs to kernels[i]. A kernel that does not compile is a value and costs itself
  /// only. `progress(done, total)` is called from this thread; what it throws ends the compilers and passes
  /// through. Throws base::EnvironmentError when nothing can be compiled or written.
  virtual std::vector<CompileResult> compile(std::span<const codegen::AnyKernel> kernels,
                                             const std::function<void(int, int)>& progress) = 0;
  /// How many compile() would have to compile, each kernel once: those that the cache lacks. Compiles none.
  virtual std::size_t count_missing(std::span<const codegen::AnyKernel> kernels) const = 0;
};

}  // namespace fusetune::backend
