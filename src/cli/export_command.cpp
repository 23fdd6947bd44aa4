// export: a plan as a bundle that runs without fusetune.
#include <fmt/core.h>

#include <filesystem>
#include <optional>

#include "backend/cpu/cpu_info.h"
#include "backend/cpu/kernel_compiler.h"
#include "base/error.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/cuda_export.h"
#include "cli/interrupt.h"
#include "cli/measured_rows.h"
#include "cli/output.h"
#include "cli/plan_job.h"
#include "cli/plan_kernels.h"
#include "cli/problem_options.h"
#include "cli/recorded_best.h"
#include "cli/session_options.h"
#include "export/bundle_writer.h"
#include "measure/device_lock.h"

namespace fusetune::cli {
namespace {

struct ExportArguments {
  std::string what, name, target, architecture, out;
  bool no_archive = false, force = false, no_emulation = false;
  ScheduleOption schedule;
  SessionArguments session;
  ProblemOptions problem;

  void declare(Options& options) {
    options.positional("MASK|best", what, "a fusion mask, or what the newest search of this problem found");
    options.text("--out", out, "DIR", "directory of the bundle; the archive is DIR.tar.gz");
    options.text("--name", name, "NAME", "prefix of every symbol; default: made from the problem");
    options.choice("--target", target, {"cpu", "cuda", "hip"},
                   "what the bundle runs on; default: as --backend");
    options.text("--arch", architecture, "ARCH",
                 "--target cuda without a GPU: what to compile for, e.g. sm_90a");
    options.flag("--no-archive", no_archive, "the directory only");
    options.flag("--force", force, "replace a bundle that is there");
    options.flag("--no-emulation", no_emulation, "cuda: do not check the kernels in the emulator");
    schedule.declare(options);
    session.declare(options);
    problem.declare(options);
  }

  bool best() const { return what == "best"; }
  /// For another machine's GPU: compiled and emulated, not run.
  bool without_gpu() const { return target == "cuda" && session.default_backend(); }

  /// What can be refused before any work.
  void check(const Options& options) const {
    const std::string_view device = measure::name(session.session(problem).device);
    if (target == "hip")
      throw base::UsageError(
          "export --target hip: a later version brings it; generate --target hip writes the sources");
    if (without_gpu())
      check_without_gpu(options);
    else if (!architecture.empty())
      throw base::UsageError("--arch goes with --target cuda where no --backend is given: a GPU has its own");
    else if (!target.empty() && target != device)
      throw base::UsageError(
          fmt::format("export --target {}: a bundle is checked where it is to run; add --backend {}, not {}",
                      target, target, device));
    if (no_emulation && device != "cuda" && !without_gpu())
      throw base::UsageError("--no-emulation goes with --backend cuda: the CPU's kernels are run themselves");
    if (out.empty()) throw base::UsageError("where to? Give --out DIR");
    if (!name.empty()) exporting::check_name(name);
    for (const char* option : {"--schedule", "--schedule-text"})
      if (best() && options.given(option))
        throw base::UsageError(
            fmt::format("export best takes the search's schedules: {} goes with a MASK", option));
    if (!best()) plan::parse_mask(what);
  }

 private:
  void check_without_gpu(const Options& options) const {
    if (best()) throw base::UsageError("export best takes what a search on a GPU found: add --backend cuda");
    if (architecture.empty())
      throw base::UsageError(
          "export --target cuda: what is it to be compiled for? Give --arch sm_90a or the like, or --backend "
          "cuda "
          "for the GPU that is here");
    if (no_emulation)
      throw base::UsageError(
          "--no-emulation goes with --backend cuda: without a GPU nothing else runs the kernels");
    for (const char* option :
         {"--threads", "--isa", "--cxx", "--cache", "--samples", "--min-time", "--input"})
      if (options.given(option))
        throw base::UsageError(
            fmt::format("{} means nothing to --target cuda without --backend cuda", option));
    cuda_target(architecture);
  }
};

/// A plan with its schedules and, where a search chose it, its time.
struct Choice {
  plan::FusionMask mask;
  ScheduleTable schedules;
  std::optional<RecordedBest> best;
  std::vector<plan::SegmentVariant> replaced = {};  // that a library computes where it may
};

/// What was given, or found fastest, wherever it can run.
Choice choose_freely(const ExportArguments& arguments, const measure::Session& session,
                     const measure::SessionOptions& session_options) {
  if (!arguments.best())
    return {plan::parse_mask(arguments.what), arguments.schedule.table(session, session_options),
            std::nullopt};
  RecordedBest best = find_recorded_best(arguments.schedule.database(), session);
  const plan::FusionMask mask = best.plan.canonical_mask();
  ScheduleTable schedules = best.schedules;
  return {mask, std::move(schedules), std::move(best)};
}

/// What a bundle can have of it.
Choice choose(const ExportArguments& arguments, const measure::Session& session,
              const measure::SessionOptions& session_options) {
  Choice choice = choose_freely(arguments, session, session_options);
  const ScheduleTable without_library =
      arguments.schedule.table(session, session_options, bundle_target(session.target()));
  const plan::FusionPlan plan = plan::FusionPlan::from_mask(choice.mask);
  choice.replaced = replace_library(plan, choice.schedules, without_library);
  for (const plan::SegmentVariant& variant : choice.replaced)
    base::note(fmt::format(
        "note: {} was timed fastest as a matrix product of the vendor's library, which a bundle "
        "does not have: it gets {} ({}) instead",
        variant.to_string(), choice.schedules(variant).to_string(), choice.schedules.origin(variant)));
  return choice;
}

/// What --db knows of these kernels, whoever timed them.
std::optional<exporting::MeasuredPlan> measured_before(const ExportArguments& arguments,
                                                       const measure::Session& session, plan::FusionMask mask,
                                                       std::span<const codegen::AnyKernel> kernels) {
  if (!arguments.schedule.wants_records()) return std::nullopt;
  const measure::SessionOptions options = arguments.session.session(arguments.problem);
  const MeasuredRows rows =
      find_measured_rows(arguments.schedule.database(), session, options, mask, kernels);
  if (!rows.any()) return std::nullopt;
  return exporting::MeasuredPlan{.run = {},
                                 .time_us = rows.plan_us,
                                 .low_us = {},
                                 .high_us = {},
                                 .pairs = {},
                                 .cache_mode = std::string(measure::name(options.cache)),
                                 .plan_row = rows.plan,
                                 .segment_rows = rows.segments};
}

/// The search's time, unless this version generates other kernels than were timed.
std::optional<exporting::MeasuredPlan> measured_by_search(const Choice& choice,
                                                          std::span<const codegen::AnyKernel> kernels) {
  if (sources_hash(kernels) != choice.best->sources_hash) {
    base::note(
        "note: this version generates other kernels than the search timed, so its times are left out; search "
        "again to have them");
    return std::nullopt;
  }
  return exporting::MeasuredPlan{.run = choice.best->run,
                                 .time_us = choice.best->time_us,
                                 .low_us = choice.best->low_us,
                                 .high_us = choice.best->high_us,
                                 .pairs = choice.best->pairs,
                                 .cache_mode = choice.best->cache_mode,
                                 .plan_row = choice.best->plan_row,
                                 .segment_rows = choice.best->segment_rows};
}

/// What is known without anything having run.
exporting::BundleOrigin plan_origin(const ExportArguments& arguments, const block::Problem& problem,
                                    plan::FusionMask mask, const ScheduleTable& schedules) {
  exporting::BundleOrigin origin;
  origin.name = arguments.name.empty() ? exporting::default_name(problem) : arguments.name;
  origin.fusetune_version = FUSETUNE_VERSION;
  origin.problem = problem;
  origin.mask = mask;
  for (const plan::SegmentVariant& variant : plan::FusionPlan::from_mask(mask).variants())
    origin.schedule_origins.emplace_back(schedules.origin(variant));
  return origin;
}

exporting::BundleOrigin checked_origin(const ExportArguments& arguments, const measure::Session& session,
                                       const Choice& choice, const measure::PlanKernels& kernels,
                                       const measure::CheckResult& check) {
  std::vector<codegen::AnyKernel> sources;
  for (const backend::CompiledKernel& kernel : kernels) sources.push_back(kernel.source);
  exporting::BundleOrigin origin = plan_origin(arguments, session.problem(), choice.mask, choice.schedules);
  origin.environment = session.environment().fields;
  origin.fingerprint = session.environment().fingerprint;
  // A search's time is not that of a plan with other kernels.
  origin.measured = choice.best && choice.replaced.empty()
                        ? measured_by_search(choice, sources)
                        : measured_before(arguments, session, choice.mask, sources);
  for (const measure::TensorCheck& tensor : check.tensors) {
    if (tensor.tensor != block::name(block::Tensor::output)) continue;
    origin.norm_error = tensor.norm_error;
    origin.worst_error = tensor.worst_error;
  }
  return origin;
}

exporting::BundleInput cpu_bundle(const exporting::BundleOrigin& origin, const ExportArguments& arguments,
                                  const lower::CpuTarget& target, const measure::PlanKernels& kernels) {
  exporting::BundleInput input;
  static_cast<exporting::BundleOrigin&>(input) = origin;
  for (const backend::CompiledKernel& kernel : kernels) input.kernels.push_back(*kernel.source.cpu());
  input.isa = target.isa;
  input.threads = target.threads;
  const backend::cpu::Compiler compiler = backend::cpu::find_compiler(arguments.session.cxx());
  input.toolchain = {compiler.path, compiler.kind + " " + compiler.version,
                     backend::cpu::compile_flags(compiler, input.isa)};
  return input;
}

exporting::WriteOptions write_options(const ExportArguments& arguments,
                                      const measure::SessionOptions& session) {
  const auto limits = backend::cpu::compiler_limits(arguments.session.jobs(), backend::cpu::probe_cpu());
  return {.directory = arguments.out,
          .archive = !arguments.no_archive,
          .force = arguments.force,
          .verify_timeout_seconds = session.run_timeout,
          .build = {.timeout_seconds = session.compile_timeout,
                    .memory_limit_bytes = limits.memory_bytes,
                    .jobs = limits.jobs,
                    .poll = stop_if_interrupted},
          .turn_to_compile = {},
          .turn_to_time = {}};
}

/// Writes the bundle with its own library, built and verified here; says what that printed.
void write_for_cpu(const exporting::BundleInput& input, exporting::WriteOptions write) {
  measure::DeviceLock lock(measure::kCpuDevice, stop_if_interrupted);
  // `new`: what holds the lock can be neither copied nor moved.
  using Hold = measure::DeviceLock::Hold;
  write.turn_to_compile = [&lock] { return exporting::Turn(new Hold(lock.for_compiling())); };
  write.turn_to_time = [&lock] { return exporting::Turn(new Hold(lock.for_timing())); };
  print(exporting::write_bundle(input, write) + "\n");
}

EmulationLimits limits_of(const ExportArguments& arguments) {
  return {.jobs = arguments.session.jobs(),
          .compile_timeout = arguments.session.compile_timeout(),
          .run_timeout = arguments.session.run_timeout()};
}

int done(const ExportArguments& arguments, const exporting::WriteOptions& write) {
  print(fmt::format("bundle   {}\n", arguments.out));
  if (write.archive) print(fmt::format("archive  {}\n", exporting::archive_path(write.directory).string()));
  return kDone;
}

/// False, with the reason noted, where the emulator found something.
bool write_for_cuda(exporting::CudaBundleInput input, const ExportArguments& arguments,
                    const measure::PlanKernels& kernels, const exporting::WriteOptions& write) {
  if (!arguments.no_emulation) {
    const Emulated emulated = emulate(input.problem, kernels, limits_of(arguments));
    if (!emulated.verdict) {
      base::note("not exported: the emulator found: " + emulated.finding);
      return false;
    }
    input.emulated = emulated.verdict;
  }
  exporting::write_bundle(input, write);
  print(fmt::format("{} kernels for {}, {}\n", input.kernels.size(), input.architecture,
                    input.emulated ? "checked in the emulator" : "not checked in the emulator"));
  return true;
}

/// Compiled here for a GPU that is elsewhere.
int export_without_gpu(const ExportArguments& arguments, const block::Problem& problem,
                       const exporting::WriteOptions& write) {
  const plan::FusionMask mask = plan::parse_mask(arguments.what);
  const plan::FusionPlan plan = plan::FusionPlan::from_mask(mask);
  const ScheduleTable schedules =
      arguments.schedule.table(problem, cuda_target(arguments.architecture), "no GPU");
  const CompiledForCuda compiled =
      compile_for_cuda(problem, plan, schedules, arguments.architecture, limits_of(arguments));
  base::note(fmt::format("{}   {}   {}, no GPU   {}", plan.to_string(), describe(problem),
                         compiled.environment.at("compiler"), describe(schedules, plan.variants())));
  exporting::BundleOrigin origin = plan_origin(arguments, problem, mask, schedules);
  origin.environment = compiled.environment;
  exporting::CudaBundleInput input = cuda_bundle(origin, compiled.kernels);
  input.ran = false;
  return write_for_cuda(std::move(input), arguments, compiled.kernels, write) ? done(arguments, write)
                                                                              : kBadAnswer;
}

}  // namespace

int run_export(Options& options) {
  ExportArguments arguments;
  arguments.declare(options);
  options.parse();
  arguments.check(options);
  const block::Problem problem = arguments.problem.problem();
  const measure::SessionOptions session_options = arguments.session.session(arguments.problem);
  const exporting::WriteOptions write = write_options(arguments, session_options);
  exporting::check_destination(write);

  catch_interrupts();
  if (arguments.without_gpu()) return export_without_gpu(arguments, problem, write);
  measure::Session session(problem, session_options);
  const Choice choice = choose(arguments, session, session_options);
  const plan::FusionPlan plan = plan::FusionPlan::from_mask(choice.mask);
  const measure::PlanKernels kernels = PlanCompiler(session, {&plan, 1}, choice.schedules).kernels(plan);
  stop_if_interrupted();
  base::note(fmt::format("{}   {}   {}   {}", plan.to_string(), describe(problem),
                         describe(session.environment()), describe(choice.schedules, plan.variants())));

  const measure::CheckResult check = session.check_plan(kernels);
  if (check.outcome != measure::Outcome::ok) {
    base::note(fmt::format("not exported: the plan did not pass its check: {}: {}",
                           measure::name(check.outcome), check.message));
    return kBadAnswer;
  }
  const exporting::BundleOrigin origin = checked_origin(arguments, session, choice, kernels, check);
  const lower::Target target = session.target();
  if (const auto* cpu = std::get_if<lower::CpuTarget>(&target))
    write_for_cpu(cpu_bundle(origin, arguments, *cpu, kernels), write);
  else if (!write_for_cuda(cuda_bundle(origin, kernels, choice.replaced), arguments, kernels, write))
    return kBadAnswer;
  return done(arguments, write);
}

}  // namespace fusetune::cli
