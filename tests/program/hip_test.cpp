// tools/test --full: every segment variant in float32 as HIP, compiled for AMD GPUs.
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "base/subprocess.h"
#include "program/gpu_kernels.h"

namespace fusetune::gpu_test {
namespace {

/// hipcc; a clang that knows AMD GPUs does as well, without HIP's headers and libraries.
std::vector<std::string> hip_compiler() {
  for (std::vector<std::string> command :
       {std::vector<std::string>{"hipcc"}, {"clang++-16", "-x", "hip", "-nogpuinc", "-nogpulib"}}) {
    try {
      if (base::run_process({command.front(), "--version"}).exit_code != 0) continue;
    } catch (const base::EnvironmentError&) {
      continue;
    }
    for (const char* flag : {"--offload-arch=gfx90a", "--cuda-device-only", "-std=c++17", "-O2", "-w", "-c"})
      command.emplace_back(flag);
    return command;
  }
  return {};
}

TEST(Hip, EveryVariantCompilesForGfx90a) {
  const std::vector<std::string> compiler = hip_compiler();
  if (compiler.empty()) GTEST_SKIP() << "neither hipcc nor clang++-16 is installed";
  const block::Problem problem = Case{.seq = 65, .head_size = 32, .ffn = 128}.problem();
  const lower::GpuTarget target{64 << 10, 104};  // an MI200's local memory and compute units
  std::vector<codegen::GpuKernel> kernels;
  for (const auto& variant : plan::all_variants())
    kernels.push_back(
        codegen::generate_gpu(variant, lower::default_schedule(variant, problem, target), problem, target));

  const base::TemporaryDirectory directory;
  base::ProcessOptions limits;
  limits.timeout_seconds = 120;
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::string failures;
  const auto work = [&] {
    for (std::size_t i = next++; i < kernels.size(); i = next++) {
      const std::filesystem::path file = directory.path() / (kernels[i].symbol + ".hip");
      base::write_file_atomic(file, codegen::translation_unit({&kernels[i], 1}, codegen::GpuDialect::hip));
      std::vector<std::string> command = compiler;
      command.insert(command.end(), {file.string(), "-o", file.string() + ".o"});
      const base::ProcessResult result = base::run_process(command, limits);
      const std::scoped_lock lock(mutex);
      if (result.exit_code != 0 && failures.size() < 4000)
        failures += kernels[i].variant.to_string() + "\n" + result.output;
    }
  };
  std::vector<std::jthread> threads;
  for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i) threads.emplace_back(work);
  threads.clear();
  EXPECT_EQ(failures, "");
}

}  // namespace
}  // namespace fusetune::gpu_test
