#include "backend/cpu/cpu_backend.h"

#include <array>
#include <fstream>
#include <optional>
#include <string>

#include "backend/cpu/cpu_info.h"
#include "backend/cpu/kernel_compiler.h"
#include "backend/cpu/loaded_kernel.h"
#include "backend/cpu/runner.h"
#include "base/error.h"
#include "base/file.h"
#include "base/number.h"

namespace fusetune::backend::cpu {
namespace {

std::string in_kib(std::int64_t bytes) {
  return bytes > 0 ? std::to_string(bytes >> 10) + " KiB" : "unknown";
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

Check check_isa(const CpuInfo& cpu) {
  const std::string found = std::string(lower::name(cpu.best_isa)) + " on " + cpu.model;
  if (cpu.best_isa != lower::Isa::generic) return {"instruction set", Check::Status::ok, found, {}};
  return {"instruction set", Check::Status::warning, found + ": plain vector code",
          "nothing to install: kernels run, slower than with AVX2 or AVX-512"};
}

Check check_huge_pages() {
  const char* path = "/sys/kernel/mm/transparent_hugepage/enabled";
  std::ifstream file(path);
  std::string text;
  std::getline(file, text);
  if (text.find("[always]") != std::string::npos || text.find("[madvise]") != std::string::npos) {
    return {"huge pages", Check::Status::ok, text, {}};
  }
  return {"huge pages", Check::Status::warning, text.empty() ? "not supported by this kernel" : text,
          "as root: echo madvise > " + std::string(path) + " (weights then need fewer address translations)"};
}

Check check_cache() {
  const std::filesystem::path directory = base::cache_directory();
  if (!directory.empty()) return {"kernel cache", Check::Status::ok, directory.string(), {}};
  return {"kernel cache", Check::Status::warning, "none: kernels are compiled again by every run",
          "set FUSETUNE_CACHE_DIR to a writable directory"};
}

std::optional<Compiler> check_compiler(const std::string& requested, std::vector<Check>& checks) {
  try {
    Compiler compiler = find_compiler(requested);
    checks.push_back({"C++ compiler", Check::Status::ok, compiler.path + ": " + compiler.banner, {}});
    const std::string linker = find_linker(compiler);
    if (linker.empty()) {
      checks.push_back({"linker", Check::Status::warning, "no ld: " + compiler.path + " links, more slowly",
                        "install binutils"});
    } else {
      checks.push_back({"linker", Check::Status::ok, linker, {}});
    }
    return compiler;
  } catch (const base::EnvironmentError& error) {
    checks.push_back(
        {"C++ compiler", Check::Status::missing, error.what(), "install g++, or name one with --cxx"});
    return std::nullopt;
  }
}

/// Doubles tensor 0 into tensor 1, each thread its own four numbers.
codegen::KernelSource trial_kernel() {
  codegen::KernelSource kernel;
  kernel.symbol = "ft_doctor_trial";
  kernel.includes = {"cpu/abi.h"};
  kernel.body = R"(
typedef float trial_vector __attribute__((vector_size(16)));
extern "C" void ft_doctor_trial(const ft_args* args, int thread, int threads, ft_barrier* barrier) {
  const trial_vector* in = (const trial_vector*)args->tensor[0];
  trial_vector* out = (trial_vector*)args->tensor[1];
  out[thread] = in[thread] + in[thread];
  ft_barrier_wait(barrier, threads);
}
)";
  return kernel;
}

/// Compiles, loads and runs a kernel on two threads, as a search would.
Check check_trial(const Compiler& compiler, lower::Isa isa) {
  const std::string what = "compile, load and run a kernel";
  const std::string remedy =
      "see the message; --cxx names another compiler, TMPDIR another place for its files";
  try {
    const codegen::KernelSource source = trial_kernel();
    KernelCompiler kernel_compiler(compiler, isa, CompileOptions());
    const CompileResult result = kernel_compiler.compile({&source, 1}).front();
    if (result.status != CompileResult::Status::ok) return {what, Check::Status::missing, result.log, remedy};
    const LoadedKernel kernel(result.kernel);

    alignas(64) std::array<float, 8> in = {1, 2, 3, 4, 5, 6, 7, 8};
    alignas(64) std::array<float, 8> out = {};
    ft_args args = {};
    args.tensor[0] = in.data();
    args.tensor[1] = out.data();
    const Launch launch{kernel.function(), &args};
    Runner(2).run({&launch, 1});
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (out[i] != 2 * in[i]) return {what, Check::Status::missing, "the kernel's result is wrong", remedy};
    }
    return {what,
            Check::Status::ok,
            std::string(lower::name(isa)) + ", compiled in " +
                base::format_fixed(result.kernel.compile_seconds * 1e3, 0) + " ms",
            {}};
  } catch (const base::EnvironmentError& error) {
    return {what, Check::Status::missing, error.what(), remedy};
  }
}

class CpuBackend final : public Backend {
 public:
  std::vector<Device> devices() const override {
    const CpuInfo cpu = probe_cpu();
    return {{cpu.model,
             {{"cpus", std::to_string(cpu.cpus)},
              {"isa", std::string(lower::name(cpu.best_isa))},
              {"features", joined(cpu.features)},
              {"l1 data", in_kib(cpu.l1_bytes)},
              {"l2", in_kib(cpu.l2_bytes)},
              {"l3", in_kib(cpu.l3_bytes)},
              {"memory", std::to_string(cpu.memory_bytes >> 20) + " MiB"}}}};
  }

  std::vector<Check> diagnose(const DiagnoseOptions& options) const override {
    const CpuInfo cpu = probe_cpu();
    std::vector<Check> checks = {check_isa(cpu)};
    if (const auto compiler = check_compiler(options.cxx, checks)) {
      checks.push_back(check_trial(*compiler, cpu.best_isa));
    }
    checks.push_back(check_cache());
    checks.push_back(check_huge_pages());
    return checks;
  }
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend() { return std::make_unique<CpuBackend>(); }

}  // namespace fusetune::backend::cpu
