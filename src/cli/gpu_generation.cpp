#include "cli/gpu_generation.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "backend/cuda/cubin_compiler.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/problem_options.h"
#include "cli/progress.h"
#include "codegen/gpu_kernel.h"
#include "measure/device_lock.h"

namespace fusetune::cli {
namespace {

using backend::cuda::Architecture;
using backend::cuda::CubinResult;

/// What is generated for when nothing is said: the oldest architecture that has all that kernels use.
constexpr std::string_view kDefaultArchitecture = "sm_80";

std::vector<Architecture> architectures_of(const GpuGeneration& what) {
  if (what.target == "hip") {
    if (!what.architecture.empty())
      throw base::UsageError(
          "--arch is for --target cuda: HIP sources are the same for all of hipcc's targets");
    return {backend::cuda::parse_architecture(kDefaultArchitecture)};
  }
  if (what.architecture == "all") {
    const backend::cuda::Nvrtc nvrtc;
    return backend::cuda::supported_architectures(nvrtc.architectures());
  }
  std::vector<Architecture> architectures;
  for (const std::string& text : base::split(
           what.architecture.empty() ? kDefaultArchitecture : std::string_view(what.architecture), ','))
    architectures.push_back(backend::cuda::parse_architecture(text));
  return architectures;
}

lower::GpuTarget target_of(const Architecture& architecture, bool hip) {
  lower::GpuTarget target;
  target.shared_bytes = hip ? 64 << 10 : backend::cuda::limits(architecture).shared_bytes_per_block;
  return target;
}

codegen::GpuDialect dialect_of(const GpuGeneration& what) {
  return what.target == "hip" ? codegen::GpuDialect::hip : codegen::GpuDialect::cuda;
}

/// Throws base::UsageError with the reason where the given schedule cannot run.
std::vector<codegen::GpuKernel> generate(const GpuGeneration& what, const Architecture& architecture) {
  const lower::GpuTarget target = target_of(architecture, what.target == "hip");
  std::vector<codegen::GpuKernel> kernels;
  for (const plan::SegmentVariant& variant : what.variants)
    kernels.push_back(codegen::generate_gpu(
        variant, what.schedule.value_or(lower::default_schedule(variant, what.problem, target)), what.problem,
        target));
  return kernels;
}

std::string text_of(const codegen::GpuKernel& kernel, const GpuGeneration& what) {
  return what.standalone ? codegen::translation_unit({&kernel, 1}, dialect_of(what))
                         : codegen::readable_source(kernel, dialect_of(what));
}

std::string file_name(const codegen::GpuKernel& kernel, const GpuGeneration& what) {
  return fmt::format("segment_{}_{}{}.{}", kernel.variant.segment.first, kernel.variant.segment.last,
                     kernel.variant.hand_written ? "_hand_written" : "", what.target == "hip" ? "hip" : "cu");
}

/// One directory for each architecture where there are several: shared memory decides on schedules.
void write_files(const std::vector<codegen::GpuKernel>& kernels, const GpuGeneration& what,
                 const std::filesystem::path& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error)
    throw base::EnvironmentError(fmt::format("cannot create {}: {}", directory.string(), error.message()));
  report::Table table({{"file", "file"}, {"segment", "segment"}, {"schedule", "schedule"}});
  for (const codegen::GpuKernel& kernel : kernels) {
    const std::filesystem::path file = directory / file_name(kernel, what);
    base::write_file_atomic(file, text_of(kernel, what));
    table.add({file.string(), kernel.variant.to_string(), kernel.schedule.to_string()});
  }
  if (!what.output.to_stdout()) print(table.to_text());
}

void print_sources(const std::vector<codegen::GpuKernel>& kernels, const GpuGeneration& what) {
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    if (i > 0) print("\n");
    print(text_of(kernels[i], what));
  }
}

/// Collects one row per compiled kernel, and the sentence that sums an architecture up.
class CompileReport {
 public:
  void add(const Architecture& architecture, const codegen::GpuKernel& kernel, const CubinResult& result) {
    const bool ok = result.status == CubinResult::Status::ok;
    const auto number = [&](std::int64_t value) { return ok ? report::Cell(value) : report::Cell(); };
    rows_.add({architecture.name(), kernel.variant.to_string(), ok ? "ok" : "failed",
               number(result.resources.registers), number(result.resources.spill_store_bytes),
               number(result.resources.spill_load_bytes),
               number(kernel.shared_bytes + result.resources.static_shared_bytes),
               number(static_cast<std::int64_t>(result.cubin.size())),
               ok ? report::Cell(result.compile_seconds) : report::Cell(), kernel.schedule.to_string()});
    if (ok) {
      spilling_ += result.resources.spill_store_bytes > 0;
      if (result.compile_seconds > 0) seconds_.push_back(result.compile_seconds);
    } else {
      ++failed_;
      base::note(fmt::format("{} does not compile for {}:\n{}", kernel.variant.to_string(),
                             architecture.name(), result.log));
    }
    ++count_;
  }

  /// `wall`: seconds that all of it took.
  std::string summary(const Architecture& architecture, block::Dtype dtype, double wall) {
    std::sort(seconds_.begin(), seconds_.end());
    double total = 0;
    for (const double seconds : seconds_) total += seconds;
    std::string text = fmt::format("{} {}: {} of {} kernels compiled, {} with spills", architecture.name(),
                                   block::name(dtype), count_ - failed_, count_, spilling_);
    if (!seconds_.empty())
      text +=
          fmt::format("; {} by the compiler: median {:.2f} s, longest {:.2f} s, {:.1f} s of compiling in all",
                      seconds_.size(), seconds_[seconds_.size() / 2], seconds_.back(), total);
    if (static_cast<int>(seconds_.size()) < count_ - failed_)
      text += fmt::format("; {} from the cache", count_ - failed_ - static_cast<int>(seconds_.size()));
    text += fmt::format("; {:.1f} s by the clock", wall);
    count_ = spilling_ = 0;
    any_failed_ |= failed_ > 0;
    failed_ = 0;
    seconds_.clear();
    return text;
  }

  bool any_failed() const { return any_failed_; }
  const report::Table& rows() const { return rows_; }

 private:
  report::Table rows_{{{"architecture", "arch"},
                       {"segment", "segment"},
                       {"outcome", "outcome"},
                       {"registers", "registers"},
                       {"spill_store_bytes", "spill stores"},
                       {"spill_load_bytes", "spill loads"},
                       {"shared_bytes", "shared bytes"},
                       {"cubin_bytes", "cubin bytes"},
                       {"compile_seconds", "seconds", 2},
                       {"schedule", "schedule"}}};
  std::vector<double> seconds_;
  int count_ = 0, failed_ = 0, spilling_ = 0;
  bool any_failed_ = false;
};

void compile(const std::vector<codegen::GpuKernel>& kernels, const Architecture& architecture,
             const GpuGeneration& what, backend::cuda::CubinCompiler& compiler, CompileReport& report) {
  std::vector<backend::cuda::CubinSource> sources;
  for (const codegen::GpuKernel& kernel : kernels)
    sources.push_back({kernel.symbol, kernel.symbol,
                       codegen::translation_unit({&kernel, 1}, codegen::GpuDialect::cuda), architecture});
  Progress progress("compiling for " + architecture.name());
  const auto start = std::chrono::steady_clock::now();
  const auto results = compiler.compile(sources, [&progress](int done, int total) {
    stop_if_interrupted();
    progress(done, total);
  });
  const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  for (std::size_t i = 0; i < kernels.size(); ++i) report.add(architecture, kernels[i], results[i]);
  base::note(report.summary(architecture, what.problem.dtype, wall));
}

int compile_all(const GpuGeneration& what, const std::vector<Architecture>& architectures) {
  if (what.target == "hip")
    throw base::UsageError(
        "--compile is for cpu and cuda: compile HIP sources with hipcc (--standalone --out DIR)");
  backend::cuda::CubinOptions options;
  options.jobs = what.jobs;
  options.timeout_seconds = what.compile_timeout;
  options.cache_directory = base::cache_directory();
  backend::cuda::CubinCompiler compiler{backend::cuda::Nvrtc(), options};
  base::note(
      fmt::format("{}  compiling with NVRTC {}", describe(what.problem), compiler.release().version()));
  catch_interrupts();
  measure::DeviceLock lock(measure::kCpuDevice, stop_if_interrupted);
  const measure::DeviceLock::Hold hold = lock.for_compiling();
  CompileReport report;
  for (const Architecture& architecture : architectures)
    compile(generate(what, architecture), architecture, what, compiler, report);
  if (!what.output.write(report.rows())) print(report.rows().to_text());
  return report.any_failed() ? kBadAnswer : kDone;
}

}  // namespace

int generate_for_gpu(const GpuGeneration& what) {
  what.output.check();
  if (what.target == "hip" && what.problem.dtype != block::Dtype::f32)
    throw base::UsageError(
        fmt::format("target hip has float32 kernels only, not {}", name(what.problem.dtype)));
  const std::vector<Architecture> architectures = architectures_of(what);
  if (!what.out.empty())
    for (const Architecture& architecture : architectures) {
      const std::filesystem::path directory = what.out;
      write_files(generate(what, architecture), what,
                  architectures.size() == 1 ? directory : directory / architecture.name());
    }
  else if (!what.compile) {
    if (architectures.size() > 1) throw base::UsageError("several architectures need --out DIR or --compile");
    print_sources(generate(what, architectures.front()), what);
  }
  flush_output();
  return what.compile ? compile_all(what, architectures) : kDone;
}

}  // namespace fusetune::cli
