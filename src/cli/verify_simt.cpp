#include "cli/verify_simt.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "backend/cuda/architecture.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/problem_options.h"
#include "cli/progress.h"
#include "cli/verify_findings.h"
#include "codegen/gpu_kernel.h"
#include "measure/device_lock.h"

namespace fusetune::cli {
namespace {

using backend::simt::LibraryResult;

/// A variant under one schedule, with its source.
struct GpuCandidate {
  plan::SegmentVariant variant;
  lower::GpuSchedule schedule;
  codegen::GpuKernel source;
};

class SimtVerifier {
 public:
  explicit SimtVerifier(const SimtVerification& what)
      : what_(what),
        emulation_(what.problem, what.data, what.emulation),
        lock_(measure::kCpuDevice, stop_if_interrupted),
        findings_(what.output.to_stdout()) {}

  int run() {
    list();
    compile();
    for (std::size_t i = 0; i < candidates_.size(); ++i) check(candidates_[i], libraries_[i]);
    for (const plan::FusionMask mask : what_.masks) check_plan(mask);
    return findings_.finish(what_.output);
  }

 private:
  void list() {
    for (const plan::SegmentVariant& variant : what_.variants) {
      if (!what_.schedule_text.empty()) {
        add(variant, lower::GpuSchedule::parse(what_.schedule_text));
      } else if (what_.all_schedules) {
        std::vector<lower::Refused<lower::GpuSchedule>> refused;
        for (const auto& schedule : lower::program_space(variant, what_.problem, what_.target, &refused))
          add(variant, schedule);
        for (const auto& [schedule, reason] : refused)
          findings_.add_refusal(variant, schedule.to_string(), reason);
      } else {
        add(variant, lower::default_schedule(variant, what_.problem, what_.target));
      }
    }
  }

  void add(const plan::SegmentVariant& variant, const lower::GpuSchedule& schedule) {
    const std::string reason = lower::refuse(schedule, variant, what_.problem, what_.target);
    if (reason.empty()) {
      candidates_.push_back(
          {variant, schedule, codegen::generate_gpu(variant, schedule, what_.problem, what_.target)});
      return;
    }
    findings_.add_refusal(variant, schedule.to_string(), reason);
  }

  void compile() {
    std::vector<std::string> units;
    for (const GpuCandidate& candidate : candidates_)
      units.push_back(codegen::translation_unit({&candidate.source, 1}, codegen::GpuDialect::simt));
    backend::simt::LibraryOptions options;
    options.jobs = what_.jobs;
    options.timeout_seconds = what_.compile_timeout;
    options.cache_directory = base::cache_directory();
    backend::simt::LibraryCompiler compiler(backend::cpu::find_compiler(what_.cxx), what_.emulation.mode,
                                            options);
    const measure::DeviceLock::Hold hold = lock_.for_compiling();
    Progress progress("compiling");
    libraries_ = compiler.compile(units, [&progress](int done, int total) {
      stop_if_interrupted();
      progress(done, total);
    });
  }

  void check(const GpuCandidate& candidate, const LibraryResult& result) {
    stop_if_interrupted();
    const std::string segment = candidate.variant.to_string(), schedule = candidate.schedule.to_string();
    const std::string repeat = fmt::format("fusetune verify --variant '{}' --schedule-text '{}'{}", segment,
                                           schedule, what_.options_text);
    const measure::DeviceLock::Hold hold = lock_.for_compiling();  // by itself: a search wants its turns
    if (result.library == nullptr)
      findings_.add_failure(segment, schedule, measure::Outcome::compile_failed, result.log, repeat);
    else
      findings_.add(segment, schedule, emulation_.check_segment({candidate.source, result.library}), repeat);
  }

  /// The whole plan, with the first schedule of each variant, unless one of its kernels did not compile.
  void check_plan(plan::FusionMask mask) {
    stop_if_interrupted();
    std::vector<measure::EmulatedKernel> kernels;
    for (const plan::SegmentVariant& variant : plan::FusionPlan::from_mask(mask).variants()) {
      const auto found =
          std::find_if(candidates_.begin(), candidates_.end(),
                       [&](const GpuCandidate& candidate) { return candidate.variant == variant; });
      if (found == candidates_.end()) return;
      const LibraryResult& result = libraries_[static_cast<std::size_t>(found - candidates_.begin())];
      if (result.library == nullptr) return;
      kernels.push_back({found->source, result.library});
    }
    const measure::DeviceLock::Hold hold = lock_.for_compiling();
    findings_.add(std::to_string(mask.value), plan::FusionPlan::from_mask(mask).to_string(),
                  emulation_.check_plan(kernels),
                  fmt::format("fusetune verify {}{}", mask.value, what_.options_text));
  }

  const SimtVerification& what_;
  measure::Emulation emulation_;
  measure::DeviceLock lock_;
  Findings findings_;
  std::vector<GpuCandidate> candidates_;
  std::vector<LibraryResult> libraries_;
};

}  // namespace

constexpr std::array<std::string_view, 4> kSimtNames{"--emulation", "--thread-order", "--grid-blocks",
                                                     "--arch"};

void SimtOptions::declare(Options& options) {
  options_ = &options;
  options.group("Emulator (--backend simt)");
  options.choice("--emulation", mode_, {"checked", "fast"},
                 "checked: every access too, for races, bounds and initialisation");
  options.choice("--thread-order", order_, {"forward", "reverse", "random"}, "in which order threads run");
  options.integer("--grid-blocks", blocks_, "N",
                  "blocks of a grid at most: few, so that each has several tasks", 1, 64);
  options.text("--arch", architecture_, "ARCH", "GPU whose shared memory limits the schedules");
  options.group("");
}

void SimtOptions::refuse_elsewhere(const Options& options) const {
  for (const std::string_view name : kSimtNames)
    if (options.given(name)) throw base::UsageError(fmt::format("{} goes with --backend simt", name));
}

std::string SimtOptions::command_line() const { return options_->command_line(kSimtNames); }

measure::EmulationOptions SimtOptions::emulation() const {
  measure::EmulationOptions emulation;
  emulation.mode = mode_ == "fast" ? backend::simt::Mode::fast : backend::simt::Mode::checked;
  emulation.run.order = order_ == "forward"   ? backend::simt::ThreadOrder::forward
                        : order_ == "reverse" ? backend::simt::ThreadOrder::reverse
                                              : backend::simt::ThreadOrder::random;
  emulation.run.resident_blocks = blocks_;
  return emulation;
}

lower::GpuTarget SimtOptions::target() const {
  lower::GpuTarget target;
  target.shared_bytes =
      backend::cuda::limits(backend::cuda::parse_architecture(architecture_)).shared_bytes_per_block;
  return target;
}

int verify_in_emulator(const SimtVerification& what) {
  if (const std::string reason = backend::simt::unavailable_reason(); !reason.empty())
    throw base::EnvironmentError("--backend simt: " + reason);
  catch_interrupts();
  base::note(fmt::format("{}   SIMT emulator, {} blocks", describe(what.problem),
                         what.emulation.run.resident_blocks));
  return SimtVerifier(what).run();
}

}  // namespace fusetune::cli
