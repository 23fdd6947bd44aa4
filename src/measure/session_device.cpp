#include "measure/session_device.h"

#include <utility>
#include <vector>

#include "backend/cpu/cpu_info.h"
#include "backend/cpu/device_compiler.h"
#include "backend/cuda/cublaslt.h"
#include "backend/cuda/device_compiler.h"
#include "backend/cuda/driver.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "measure/device_lock.h"
#include "measure/environment.h"

namespace fusetune::measure {
namespace {

using backend::cpu::CpuInfo;

constexpr int kMaximumThreads = 1024;

lower::Isa choose_isa(const std::string& requested, const CpuInfo& cpu) {
  if (requested.empty()) return cpu.best_isa;
  const lower::Isa isa = lower::parse_isa(requested);
  if (backend::cpu::supports(cpu, isa)) return isa;
  throw base::UsageError("this CPU (" + cpu.model + ") does not run " + requested +
                         "; its best instruction set is " + std::string(lower::name(cpu.best_isa)));
}

int choose_threads(int requested, const CpuInfo& cpu) {
  if (requested < 0 || requested > kMaximumThreads) {
    throw base::UsageError("--threads " + std::to_string(requested) + ": expected 1 to " +
                           std::to_string(kMaximumThreads) + ", or 0 for all CPUs");
  }
  return requested == 0 ? cpu.cpus : requested;
}

backend::cpu::CompileOptions compile_options(const SessionOptions& options) {
  backend::cpu::CompileOptions result;
  result.jobs = options.jobs;
  result.timeout_seconds = options.compile_timeout;
  result.poll = options.poll;
  if (const auto cache = base::cache_directory(); !cache.empty()) result.cache_directory = cache / "cpu";
  return result;
}

SessionDevice open_cpu(const block::Problem& problem, const SessionOptions& options, const CpuInfo& cpu) {
  if (problem.dtype != block::Dtype::f32) {
    throw base::UsageError("--dtype " + std::string(block::name(problem.dtype)) +
                           ": the CPU kernels of this version run f32 only");
  }
  const lower::Isa isa = choose_isa(options.isa, cpu);
  const int threads = choose_threads(options.threads, cpu);
  const backend::cpu::Compiler compiler = backend::cpu::find_compiler(options.cxx);
  SessionDevice device;
  device.target = backend::cpu::target_of(cpu, isa, threads);
  device.environment = describe_environment(cpu, isa, threads, compiler, options.cache);
  device.compiler = backend::cpu::make_device_compiler(compiler, isa, compile_options(options));
  device.cache_bytes = cpu.l3_bytes;
  device.instances = {{.name = "CPU", .uuid = {}, .lock = std::string(kCpuDevice), .executor = {}}};
  device.instances.front().executor.threads = threads;
  return device;
}

constexpr const char* kWithoutGpu =
    "; --backend cuda runs kernels on an NVIDIA GPU: without one, generate --target cuda --compile builds "
    "them "
    "and verify --backend simt checks them";

backend::cuda::Driver open_driver() {
  try {
    return backend::cuda::Driver();
  } catch (const base::EnvironmentError& error) {
    throw base::EnvironmentError(error.what() + std::string(kWithoutGpu));
  }
}

const backend::cuda::DriverDevice& gpu_at(const std::vector<backend::cuda::DriverDevice>& gpus, int ordinal) {
  if (ordinal < 0 || ordinal >= std::ssize(gpus))
    throw base::EnvironmentError("there is no CUDA device " + std::to_string(ordinal) +
                                 ": the driver lists " + std::to_string(gpus.size()) + kWithoutGpu);
  return gpus[static_cast<std::size_t>(ordinal)];
}

/// The times of all GPUs of a session have to be of one environment.
void require_alike(const Environment& first, const Environment& other, int first_ordinal, int ordinal) {
  const std::string differs = difference(first, other);
  if (!differs.empty())
    throw base::UsageError("--device: GPUs " + std::to_string(first_ordinal) + " and " +
                           std::to_string(ordinal) + " are not of one kind (" + differs +
                           "), so that their times cannot be compared; name GPUs of one kind, as "
                           "`fusetune devices` lists them, and search on the others by themselves");
}

DeviceInstance instance_of(const backend::cuda::DriverDevice& gpu, int ordinal) {
  DeviceInstance instance;
  instance.name = "GPU " + std::to_string(ordinal);
  instance.uuid = gpu.uuid;
  instance.lock = gpu.uuid;  // ordinals are of this process: CUDA_VISIBLE_DEVICES
  instance.executor.device = ordinal;
  return instance;
}

/// Notes where only what is in the cache can run.
backend::cuda::CudaCompiler open_cuda_compiler(const std::filesystem::path& cache) {
  backend::cuda::CudaCompiler compiler = backend::cuda::open_compiler(cache);
  if (!compiler.nvrtc)
    base::note("note: " + compiler.missing + ": only kernels that NVRTC " + compiler.release.version() +
               " left in the cache " + cache.string() + " run, others are skipped");
  return compiler;
}

SessionDevice open_cuda(const SessionOptions& options) {
  const backend::cuda::Driver driver = open_driver();
  const std::vector<backend::cuda::DriverDevice> devices = driver.devices();
  const backend::cuda::DriverDevice& gpu = gpu_at(devices, options.ordinals.at(0));
  const backend::cuda::CudaCompiler compiler = open_cuda_compiler(base::cache_directory());
  const backend::cuda::Architecture architecture =
      backend::cuda::architecture_of_device(gpu.compute_capability, compiler.release.architectures);
  backend::cuda::CubinOptions cubins;
  cubins.jobs = options.jobs;
  cubins.timeout_seconds = options.compile_timeout;
  cubins.cache_directory = base::cache_directory();
  SessionDevice device;
  device.target = lower::GpuTarget{.shared_bytes = gpu.shared_bytes_per_block,
                                   .multiprocessors = gpu.multiprocessors,
                                   .library = backend::cuda::find_cublaslt()};
  device.compiler = backend::cuda::make_device_compiler(compiler, architecture, cubins, options.poll);
  const auto describe = [&](const backend::cuda::DriverDevice& each) {
    return describe_environment(driver, each, compiler.release,
                                backend::cuda::CubinCompiler(compiler, cubins).options(architecture),
                                options.cache);
  };
  device.environment = describe(gpu);
  device.cache_bytes = gpu.l2_bytes;
  for (const int ordinal : options.ordinals) {
    const backend::cuda::DriverDevice& each = gpu_at(devices, ordinal);
    require_alike(device.environment, describe(each), options.ordinals.front(), ordinal);
    device.instances.push_back(instance_of(each, ordinal));
  }
  return device;
}

}  // namespace

SessionDevice open_device(const block::Problem& problem, const SessionOptions& options) {
  const CpuInfo cpu = backend::cpu::probe_cpu();
  problem.check(cpu.memory_bytes);
  return options.device == DeviceKind::cpu ? open_cpu(problem, options, cpu) : open_cuda(options);
}

}  // namespace fusetune::measure
