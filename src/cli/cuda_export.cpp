#include "cli/cuda_export.h"

#include <algorithm>
#include <string_view>

#include "backend/cpu/kernel_compiler.h"
#include "backend/cuda/device_compiler.h"
#include "backend/simt/library_compiler.h"
#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "block/data.h"
#include "block/mask.h"
#include "cli/interrupt.h"
#include "cli/progress.h"
#include "measure/check.h"
#include "measure/device_lock.h"
#include "measure/emulation.h"

namespace fusetune::cli {
namespace {

using backend::simt::LibraryResult;

/// One batch entry tells as much as several. A mask whose file or lengths are for several entries needs them.
block::Problem small(block::Problem problem) {
  try {
    const block::Mask mask(problem.mask, 1, problem.seq);
    problem.batch = 1;
  } catch (const base::UsageError&) {
    return problem;
  }
  return problem;
}

const codegen::GpuKernel& gpu(const backend::CompiledKernel& kernel) {
  if (kernel.source.gpu() == nullptr) throw base::InternalError("a CPU's kernel is in a GPU's bundle");
  return *kernel.source.gpu();
}

std::vector<LibraryResult> compile(const measure::PlanKernels& kernels, const EmulationLimits& limits) {
  std::vector<std::string> units;
  for (const backend::CompiledKernel& kernel : kernels)
    units.push_back(codegen::translation_unit({&gpu(kernel), 1}, codegen::GpuDialect::simt));
  backend::simt::LibraryOptions options;
  options.jobs = limits.jobs;
  options.timeout_seconds = limits.compile_timeout;
  options.cache_directory = base::cache_directory();
  backend::simt::LibraryCompiler compiler(backend::cpu::find_compiler(""), backend::simt::Mode::checked,
                                          options);
  Progress progress("compiling for the emulator");
  return compiler.compile(units, [&progress](int done, int total) {
    stop_if_interrupted();
    progress(done, total);
  });
}

exporting::EmulatorVerdict::Kernel errors_of(const measure::CheckResult& result) {
  exporting::EmulatorVerdict::Kernel errors;
  for (const measure::TensorCheck& tensor : result.tensors) {
    errors.norm_error = std::max(errors.norm_error, tensor.norm_error);
    errors.worst_error = std::max(errors.worst_error, tensor.worst_error);
  }
  return errors;
}

}  // namespace

Emulated emulate(const block::Problem& problem, const measure::PlanKernels& kernels,
                 const EmulationLimits& limits) {
  if (const std::string reason = backend::simt::unavailable_reason(); !reason.empty())
    throw base::EnvironmentError("a bundle's kernels are checked in the emulator first: " + reason +
                                 "; --no-emulation leaves it out");
  measure::DeviceLock lock(measure::kCpuDevice, stop_if_interrupted);
  const measure::DeviceLock::Hold hold = lock.for_compiling();
  const block::Problem small_problem = small(problem);
  measure::EmulationOptions options;
  options.mode = backend::simt::Mode::checked;
  options.run.timeout_seconds = limits.run_timeout;
  measure::Emulation emulation(small_problem, block::generate_data(small_problem), options);

  exporting::EmulatorVerdict verdict{.batch = small_problem.batch, .kernels = {}, .plan = {}};
  std::vector<measure::EmulatedKernel> emulated;
  const std::vector<LibraryResult> libraries = compile(kernels, limits);
  Progress progress("emulating");
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    stop_if_interrupted();
    progress(static_cast<int>(i), static_cast<int>(kernels.size()));
    const std::string segment = kernels[i].source.variant().to_string();
    if (libraries[i].library == nullptr)
      return {std::nullopt, segment + " does not compile for the emulator: " + libraries[i].log};
    emulated.push_back({gpu(kernels[i]), libraries[i].library});
    const measure::CheckResult result = emulation.check_segment(emulated.back());
    if (result.outcome != measure::Outcome::ok) return {std::nullopt, segment + ": " + result.message};
    verdict.kernels.push_back(errors_of(result));
  }
  const measure::CheckResult result = emulation.check_plan(emulated);
  if (result.outcome != measure::Outcome::ok) return {std::nullopt, "the whole plan: " + result.message};
  verdict.plan = errors_of(result);
  return {verdict, {}};
}

lower::GpuTarget cuda_target(const std::string& architecture) {
  lower::GpuTarget target;
  target.shared_bytes =
      backend::cuda::limits(backend::cuda::parse_architecture(architecture)).shared_bytes_per_block;
  return target;
}

lower::Target bundle_target(lower::Target target) {
  if (auto* const gpu = std::get_if<lower::GpuTarget>(&target)) gpu->library.reset();
  return target;
}

std::vector<plan::SegmentVariant> replace_library(const plan::FusionPlan& plan, ScheduleTable& schedules,
                                                  const ScheduleTable& without_library) {
  std::vector<plan::SegmentVariant> replaced;
  for (const plan::SegmentVariant& variant : plan.variants()) {
    const lower::AnySchedule schedule = schedules(variant);
    if (schedule.gpu() == nullptr || schedule.gpu()->product != lower::GpuProduct::library) continue;
    const std::string_view origin = schedules.origin(variant);
    if (origin == "given" || origin == "file")
      throw base::UsageError("export: the schedule " + schedule.to_string() + " for " + variant.to_string() +
                             ": a bundle has generated kernels only, no vendor's library; give another one, "
                             "or none for the fastest recorded");
    schedules.set(variant, without_library(variant), without_library.origin(variant));
    replaced.push_back(variant);
  }
  return replaced;
}

CompiledForCuda compile_for_cuda(const block::Problem& problem, const plan::FusionPlan& plan,
                                 const ScheduleTable& schedules, const std::string& architecture,
                                 const EmulationLimits& limits) {
  const backend::cuda::Nvrtc nvrtc;
  const backend::cuda::Architecture wanted = backend::cuda::parse_architecture(architecture);
  backend::cuda::CubinOptions options;
  options.jobs = limits.jobs;
  options.timeout_seconds = limits.compile_timeout;
  options.cache_directory = base::cache_directory();
  CompiledForCuda compiled;
  std::string flags;
  for (const std::string& word : backend::cuda::CubinCompiler(nvrtc, options).options(wanted))
    flags += (flags.empty() ? "" : " ") + word;
  compiled.environment = {
      {"backend", "cuda"}, {"device", "none"}, {"compiler", "nvrtc " + nvrtc.version()}, {"flags", flags}};
  compiled.compiler = backend::cuda::make_device_compiler(nvrtc, wanted, options, stop_if_interrupted);

  std::vector<codegen::AnyKernel> sources;
  for (const plan::SegmentVariant& variant : plan.variants())
    sources.push_back(codegen::generate(variant, schedules(variant), problem, cuda_target(architecture)));
  for (const backend::CompileResult& result : compiled.compiler->compile(sources, Progress("compiling"))) {
    if (result.status != backend::CompileResult::Status::ok)
      throw base::EnvironmentError("exporting for " + architecture + ": " + result.log);
    compiled.kernels.push_back(result.kernel);
  }
  return compiled;
}

exporting::CudaBundleInput cuda_bundle(const exporting::BundleOrigin& origin,
                                       const measure::PlanKernels& kernels,
                                       std::span<const plan::SegmentVariant> replaced) {
  constexpr std::string_view kArchitecture = "--gpu-architecture=";
  exporting::CudaBundleInput input;
  static_cast<exporting::BundleOrigin&>(input) = origin;
  for (const backend::CompiledKernel& kernel : kernels)
    input.kernels.push_back({gpu(kernel), base::read_file(kernel.image)});
  for (const plan::SegmentVariant& variant : replaced) input.replaced.push_back(variant.to_string());
  input.compiler = origin.environment.at("compiler");
  input.flags = base::split(origin.environment.at("flags"), ' ');
  for (const std::string& flag : input.flags)
    if (flag.starts_with(kArchitecture)) input.architecture = flag.substr(kArchitecture.size());
  if (input.architecture.empty())
    throw base::InternalError("the compiler's flags do not name an architecture");
  const measure::Bounds bounds = measure::bounds(origin.problem.dtype);
  input.norm_bound = bounds.norm;
  input.worst_bound = bounds.worst;
  return input;
}

}  // namespace fusetune::cli
