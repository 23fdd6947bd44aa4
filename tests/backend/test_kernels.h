// Hand-written kernels for the backend's tests: what they do is plain to see, unlike a generated one.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>

#include "backend/cpu/kernel_compiler.h"
#include "base/file.h"
#include "codegen/kernel_source.h"

namespace fusetune::backend::cpu::testing {

/// A kernel with this statement list as its body; `args`, `thread`, `threads` and `barrier` are in scope.
inline codegen::KernelSource make_kernel(const std::string& symbol, const std::string& statements) {
  codegen::KernelSource kernel;
  kernel.symbol = symbol;
  kernel.hash = symbol;
  kernel.includes = {"cpu/abi.h"};
  kernel.body = "extern \"C\" void " + symbol +
                "(const ft_args* args, int thread, int threads, ft_barrier* barrier) {\n"
                "  (void)args, (void)thread, (void)threads, (void)barrier;\n" +
                statements + "\n}\n";
  return kernel;
}

/// Thread 0 stores `value` into the first float of tensor 0.
inline codegen::KernelSource constant_kernel(const std::string& symbol, const std::string& value) {
  return make_kernel(symbol, "if (thread == 0) ((float*)args->tensor[0])[0] = " + value + ";");
}

inline Compiler system_compiler() {
  static const Compiler compiler = find_compiler("");
  return compiler;
}

inline CompileOptions cached_in(const std::filesystem::path& directory) {
  CompileOptions options;
  options.cache_directory = directory;
  return options;
}

/// Compiles one kernel that must compile.
inline CompiledKernel compile_one(KernelCompiler& compiler, const codegen::KernelSource& kernel) {
  CompileResult result = compiler.compile({&kernel, 1}).front();
  if (result.status != CompileResult::Status::ok) throw std::runtime_error(result.log);
  return std::move(result.kernel);
}

inline std::size_t count_files(const std::filesystem::path& directory) {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(directory)) ++count;
  return count;
}

/// Sets an environment variable for the object's life.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before, had_ = true;
    setenv(name, value.c_str(), 1);
  }
  ~ScopedVariable() { had_ ? setenv(name_, before_.c_str(), 1) : unsetenv(name_); }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  const char* name_;
  std::string before_;
  bool had_ = false;
};

/// A shell script that stands in for a compiler.
inline std::string write_script(const std::filesystem::path& path, const std::string& text) {
  base::write_file_atomic(path, "#!/bin/sh\n" + text);
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path.string();
}

}  // namespace fusetune::backend::cpu::testing
