// generate: the sources of a plan's kernels, for reading or for compiling elsewhere.
#include <fmt/core.h>

#include <filesystem>
#include <optional>

#include "backend/cpu/cpu_info.h"
#include "backend/cpu/kernel_compiler.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/number.h"
#include "cli/command.h"
#include "cli/gpu_generation.h"
#include "cli/interrupt.h"
#include "cli/mask_arguments.h"
#include "cli/output.h"
#include "cli/plan_kernels.h"
#include "cli/problem_options.h"
#include "cli/progress.h"
#include "cli/segment_argument.h"
#include "measure/device_lock.h"
#include "measure/environment.h"

namespace fusetune::cli {
namespace {

struct GenerateArguments {
  MaskArguments masks;
  ProblemOptions problem;
  ScheduleOption schedule;
  bool all_segments = false, standalone = false, compile = false;
  std::vector<std::string> variants;
  std::string target = "cpu", isa, arch, out, cxx, kernel_dir;
  int threads = 0, jobs = 0;
  double compile_timeout = 120;
  RowsOutput output;

  void declare(Options& options) {
    masks.declare(options, false);
    options.flag("--all-segments", all_segments, "all 147 segment variants instead of a plan's");
    options.texts("--variant", variants, "VARIANT", "single kernels, e.g. '[7-14]' or '[2-6]*'");
    options.choice("--target", target, {"cpu", "cuda", "hip"}, "language of the sources");
    options.text("--isa", isa, "generic|avx2|avx512",
                 "cpu: instruction set; default: the best this CPU runs");
    options.integer("--threads", threads, "N",
                    "cpu: threads the schedules are for; 0: all CPUs of this process");
    options.text("--arch", arch, "sm_90a,...|all", "cuda: architectures; default: sm_80");
    options.text("--out", out, "DIR", "write one file per segment; default: print them");
    options.flag("--standalone", standalone,
                 "with the building blocks inside: compiles alone, without include path");
    options.flag("--compile", compile,
                 "compile them too and say how it went; cuda: a row per kernel instead of the sources");
    options.integer("--jobs", jobs, "N", "cuda: compilers at once; 0: by CPUs and memory");
    options.seconds("--compile-timeout", compile_timeout, "seconds per compiler call");
    options.text("--cxx", cxx, "COMPILER", "cpu: C++ compiler; default: $CXX, then what is found");
    options.text("--kernel-dir", kernel_dir, "DIR",
                 "read the building blocks from DIR, not from the program");
    output.declare(options);
    schedule.declare(options, true);
    problem.declare(options);
  }

  std::optional<lower::GpuSchedule> gpu_schedule() const {
    const std::string text = schedule.text_of_every_variant();
    if (text.empty()) return std::nullopt;
    return lower::GpuSchedule::parse(text);
  }
};

/// Options that the other targets would have to ignore are refused.
void check_options_of_target(const Options& options, const std::string& target) {
  const bool cpu = target == "cpu";
  for (const char* name : {"--isa", "--threads", "--cxx", "--schedule", "--db"})
    if (!cpu && options.given(name))
      throw base::UsageError(fmt::format("{} is for --target cpu, not for {}", name, target));
  for (const char* name : {"--arch", "--jobs", "--json", "--csv"})
    if (cpu && options.given(name)) throw base::UsageError(fmt::format("{} is for --target cuda", name));
}

lower::CpuTarget target_of(const backend::cpu::CpuInfo& cpu, const GenerateArguments& arguments) {
  return backend::cpu::target_of(cpu, arguments.isa.empty() ? cpu.best_isa : lower::parse_isa(arguments.isa),
                                 arguments.threads > 0 ? arguments.threads : cpu.cpus);
}

std::string fingerprint(const backend::cpu::CpuInfo& cpu, const lower::CpuTarget& target,
                        const std::string& cxx) {
  return measure::describe_environment(cpu, target.isa, target.threads, backend::cpu::find_compiler(cxx),
                                       measure::CacheMode::model)
      .fingerprint;
}

std::string file_name(const plan::SegmentVariant& variant) {
  return fmt::format("segment_{}_{}{}.cpp", variant.segment.first, variant.segment.last,
                     variant.hand_written ? "_hand_written" : "");
}

std::string text_of(const codegen::KernelSource& kernel, bool standalone) {
  return standalone ? codegen::translation_unit({&kernel, 1}) : codegen::readable_source(kernel);
}

void write_files(const std::vector<codegen::KernelSource>& kernels, const ScheduleTable& schedules,
                 const GenerateArguments& arguments) {
  const std::filesystem::path directory = arguments.out;
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error)
    throw base::EnvironmentError(fmt::format("cannot create {}: {}", directory.string(), error.message()));
  report::Table table({{"file", "file"}, {"segment", "segment"}, {"from", "from"}, {"schedule", "schedule"}});
  for (const codegen::KernelSource& kernel : kernels) {
    const std::filesystem::path file = directory / file_name(kernel.variant);
    base::write_file_atomic(file, text_of(kernel, arguments.standalone));
    table.add({file.string(), kernel.variant.to_string(), std::string(schedules.origin(kernel.variant)),
               kernel.schedule.to_string()});
  }
  print(table.to_text());
}

void print_sources(const std::vector<codegen::KernelSource>& kernels, bool standalone) {
  if (standalone) {
    print(codegen::translation_unit(kernels));
    return;
  }
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    if (i > 0) print("\n");
    print(text_of(kernels[i], false));
  }
}

/// Returns the exit code: one kernel that does not compile makes the answer bad.
int compile_all(const std::vector<codegen::KernelSource>& kernels, lower::Isa isa,
                const GenerateArguments& arguments) {
  backend::cpu::Compiler compiler = backend::cpu::find_compiler(arguments.cxx);
  base::note(fmt::format("compiling with {} {}", compiler.path, compiler.version));
  backend::cpu::CompileOptions options;
  options.cache_directory = base::cache_directory();
  options.timeout_seconds = arguments.compile_timeout;
  options.poll = stop_if_interrupted;
  catch_interrupts();
  measure::DeviceLock lock(measure::kCpuDevice, stop_if_interrupted);
  const measure::DeviceLock::Hold hold = lock.for_compiling();
  const auto results =
      backend::cpu::KernelCompiler(std::move(compiler), isa, options).compile(kernels, Progress("compiling"));
  int failed = 0;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (results[i].status == backend::cpu::CompileResult::Status::ok) continue;
    ++failed;
    base::note(fmt::format("{} does not compile:\n{}", kernels[i].variant.to_string(), results[i].log));
  }
  base::note(fmt::format("{} of {} kernels compiled", kernels.size() - static_cast<std::size_t>(failed),
                         kernels.size()));
  return failed == 0 ? kDone : kBadAnswer;
}

std::vector<plan::SegmentVariant> wanted_variants(GenerateArguments& arguments) {
  const std::vector<plan::FusionMask> masks = arguments.masks.masks();
  if (!arguments.schedule.text_of_every_variant().empty() && arguments.variants.empty())
    throw base::UsageError("--schedule-text goes with --variant, or names one: '[7-14]: SCHEDULE'");
  if (static_cast<int>(!masks.empty()) + static_cast<int>(arguments.all_segments) +
          static_cast<int>(!arguments.variants.empty()) !=
      1)
    throw base::UsageError("what is to be generated? Give one of a MASK, --variant and --all-segments");
  if (arguments.all_segments) return {plan::all_variants().begin(), plan::all_variants().end()};
  std::vector<plan::SegmentVariant> variants;
  for (const std::string& text : arguments.variants) variants.push_back(parse_variant(text));
  if (!variants.empty()) return variants;
  if (masks.size() > 1) throw base::UsageError("generate takes one MASK");
  return plan::FusionPlan::from_mask(masks.front()).variants();
}

}  // namespace

int run_generate(Options& options) {
  GenerateArguments arguments;
  arguments.declare(options);
  options.parse();
  check_options_of_target(options, arguments.target);
  if (!arguments.cxx.empty() && !arguments.compile)
    base::note("note: --cxx has no effect without --compile but on which records count for --schedule best");
  if (!arguments.kernel_dir.empty()) codegen::set_kernel_directory(arguments.kernel_dir);

  const std::vector<plan::SegmentVariant> variants = wanted_variants(arguments);
  const block::Problem problem = arguments.problem.problem();
  const std::string text = arguments.schedule.text_of_every_variant();
  if (arguments.target != "cpu") {
    arguments.schedule.refuse_named_variants("--target " + arguments.target);
    return generate_for_gpu({arguments.target, arguments.arch, arguments.out, arguments.gpu_schedule(),
                             arguments.standalone, arguments.compile, arguments.jobs,
                             arguments.compile_timeout, variants, problem, arguments.output});
  }
  const backend::cpu::CpuInfo cpu = backend::cpu::probe_cpu();
  const lower::CpuTarget target = target_of(cpu, arguments);
  const std::string where = arguments.schedule.wants_records() ? fingerprint(cpu, target, arguments.cxx) : "";
  const ScheduleTable schedules = arguments.schedule.table(problem, target, where);

  std::vector<codegen::KernelSource> kernels;
  for (const plan::SegmentVariant& variant : variants)
    kernels.push_back(codegen::generate_cpu(
        variant, text.empty() ? *schedules(variant).cpu() : lower::Schedule::parse(text), problem, target));
  base::note(fmt::format("{}  {}, {} threads  {}", describe(problem), lower::name(target.isa), target.threads,
                         describe(schedules, variants)));
  if (arguments.out.empty())
    print_sources(kernels, arguments.standalone);
  else
    write_files(kernels, schedules, arguments);
  flush_output();
  return arguments.compile ? compile_all(kernels, target.isa, arguments) : kDone;
}

}  // namespace fusetune::cli
