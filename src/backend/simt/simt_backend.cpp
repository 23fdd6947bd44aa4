#include "backend/simt/simt_backend.h"

#include <optional>
#include <string>

#include <boost/version.hpp>

#include "backend/simt/emulator.h"
#include "backend/simt/library_compiler.h"
#include "backend/simt/source_location.h"
#include "base/error.h"
#include "base/number.h"

namespace fusetune::backend::simt {
namespace {

constexpr int kThreads = 64;

/// Reverses 64 numbers through shared memory; self-contained. The barrier is what a checked run watches.
constexpr const char* kTrialKernel = R"(
struct ft_gpu_args { float* tensor[18]; };
extern "C" int ft_simt_thread_index();
extern "C" void* ft_simt_shared_memory();
extern "C" void ft_simt_block_sync(int line, const char* file);
extern "C" const int ft_doctor_trial_threads;
const int ft_doctor_trial_threads = 64;
extern "C" void ft_doctor_trial(const ft_gpu_args& args) {
  float* const shared = (float*)ft_simt_shared_memory();
  const int thread = ft_simt_thread_index();
  shared[thread] = args.tensor[0][thread];
  ft_simt_block_sync(__LINE__, __FILE__);
  args.tensor[1][thread] = shared[63 - thread];
}
)";

Check check_addr2line() {
  const std::string program = find_addr2line();
  if (!program.empty()) return {"addr2line", Check::Status::ok, program, {}};
  return {"addr2line", Check::Status::warning, "not found: findings name fewer source lines",
          "install binutils"};
}

std::optional<cpu::Compiler> check_compiler(const std::string& requested, std::vector<Check>& checks) {
  try {
    cpu::Compiler compiler = cpu::find_compiler(requested);
    checks.push_back({"C++ compiler", Check::Status::ok, compiler.path + ": " + compiler.banner, {}});
    return compiler;
  } catch (const base::EnvironmentError& error) {
    checks.push_back(
        {"C++ compiler", Check::Status::missing, error.what(), "install g++, or name one with --cxx"});
    return std::nullopt;
  }
}

/// Empty, or what went wrong.
std::string run_trial(const Kernel& kernel) {
  DeviceMemory memory;
  float* const in = memory.allocate_array<float>(kThreads, "in", Access::read_only);
  float* const out = memory.allocate_array<float>(kThreads, "out", Access::uninitialised);
  for (int i = 0; i < kThreads; ++i) in[i] = static_cast<float>(i);
  ft_gpu_args args{};
  args.tensor[0] = in;
  args.tensor[1] = out;
  LaunchOptions options;
  options.shared_bytes = kThreads * static_cast<std::int64_t>(sizeof(float));
  if (const auto finding = launch(kernel, args, memory, options)) return finding->message;
  for (int i = 0; i < kThreads; ++i) {
    if (out[i] != in[kThreads - 1 - i]) return "the kernel's result is wrong";
  }
  return {};
}

Check check_trial(const cpu::Compiler& compiler, Mode mode) {
  const std::string what =
      std::string("compile and run a kernel, ") + (mode == Mode::fast ? "fast" : "checked");
  const std::string remedy =
      "see the message; --cxx names another compiler, TMPDIR another place for its files";
  try {
    LibraryCompiler library_compiler(compiler, mode, {});
    const LibraryResult result = library_compiler.compile(kTrialKernel);
    if (!result.library) return {what, Check::Status::missing, result.log, remedy};
    const std::string problem = run_trial(result.library->kernel("ft_doctor_trial"));
    if (!problem.empty()) return {what, Check::Status::missing, problem, remedy};
    return {
        what, Check::Status::ok, "compiled in " + base::format_fixed(result.seconds * 1e3, 0) + " ms", {}};
  } catch (const base::EnvironmentError& error) {
    return {what, Check::Status::missing, error.what(), remedy};
  }
}

class SimtBackend final : public Backend {
 public:
  std::vector<Device> devices() const override {
    return {{"SIMT emulator",
             {{"runs", "generated CUDA source, thread by thread, on one CPU"},
              {"for", "correctness: fast or checked"},
              {"blocks", "at most " + std::to_string(kMaxBlocks)},
              {"threads at once", "at most " + std::to_string(kMaxLiveThreads)},
              {"shared memory", std::to_string(kMaxSharedBytes) + " bytes per block"}}}};
  }

  std::vector<Check> diagnose(const DiagnoseOptions& options) const override {
    std::vector<Check> checks;
    const auto compiler = check_compiler(options.cxx, checks);
    checks.push_back({"fibers", Check::Status::ok, "Boost.Context " BOOST_LIB_VERSION, {}});
    checks.push_back(check_addr2line());
    if (compiler) {
      checks.push_back(check_trial(*compiler, Mode::fast));
      checks.push_back(check_trial(*compiler, Mode::checked));
    }
    return checks;
  }
};

}  // namespace

std::unique_ptr<Backend> make_simt_backend() { return std::make_unique<SimtBackend>(); }

}  // namespace fusetune::backend::simt
