// tools/test --full: every segment variant in float32 as HIP under every kind of schedule, compiled for AMD
// GPUs.
#include <gtest/gtest.h>

#include <atomic>
#include <iostream>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "base/subprocess.h"
#include "base/text.h"
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

const block::Problem kProblem = Case{.seq = 65, .head_size = 32, .ffn = 128}.problem();
const lower::GpuTarget kMi200{64 << 10, 104};  // its local memory and compute units

std::vector<codegen::GpuKernel> default_schedules() {
  std::vector<codegen::GpuKernel> kernels;
  for (const auto& variant : plan::all_variants())
    kernels.push_back(
        codegen::generate_gpu(variant, lower::default_schedule(variant, kProblem, kMi200), kProblem, kMi200));
  return kernels;
}

/// What the compiler says of those that do not compile, the first few.
std::string failures_of(const std::vector<codegen::GpuKernel>& kernels,
                        const std::vector<std::string>& compiler) {
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
        failures +=
            kernels[i].variant.to_string() + " " + kernels[i].schedule.to_string() + "\n" + result.output;
    }
  };
  std::vector<std::jthread> threads;
  for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i) threads.emplace_back(work);
  threads.clear();
  return failures;
}

class Hip : public testing::Test {
 protected:
  void SetUp() override {
    if (compiler_.empty()) GTEST_SKIP() << "neither hipcc nor clang++-16 is installed";
    for (const std::string& line :
         base::split(base::run_process({compiler_.front(), "--version"}).output, '\n'))
      if (line.find("version") != std::string::npos) std::cout << compiler_.front() << ": " << line << "\n";
  }

  const std::vector<std::string> compiler_ = hip_compiler();
};

TEST_F(Hip, EveryVariantCompilesForGfx90a) { EXPECT_EQ(failures_of(default_schedules(), compiler_), ""); }

TEST_F(Hip, EveryKindOfScheduleCompilesForGfx90a) {
  auto kernels = kernels_of_other_kinds(kProblem, kMi200);
  kernels.push_back(spilling_kernel(kProblem, kMi200));
  EXPECT_EQ(failures_of(kernels, compiler_), "");
}

}  // namespace
}  // namespace fusetune::gpu_test
