// fusetune_device_check: prepares a tree, lists the stages, runs one of them. tools/device_check calls it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "backend/cuda/nvrtc.h"
#include "base/error.h"
#include "base/text.h"
#include "command_lines.h"
#include "stages.h"
#include "tree.h"
#include "tuning.h"

namespace fusetune::device_check {

std::span<const Stage> stages() {
  static constexpr Stage kStages[] = {
      {"device", "20", describe_device},
      {"probes", "25", run_probes},
      {"blocks", "30", stress_blocks},
      {"f16", "45", check_f16},
      {"bf16", "45", check_bf16},
      {"f32", "45", check_f32},
      {"plans", "30", check_plans},
      {"rates", "15", time_rates},
      {"tune-1x128", "25%", nullptr, tune},
      {"tune-8x512", "30%", nullptr, tune},
      {"tune-bigbird", "35%", nullptr, tune},
      {"torch", "50%", nullptr, nullptr},
      {"gemm", "25", time_gemm},
      {"attention", "25", time_attention},
      {"segments", "25", time_segments},
      {"torch-products", "30", nullptr, nullptr},
      {"torch-autotune", "100%", nullptr, nullptr},
  };
  return kStages;
}

namespace {

constexpr int kDone = 0, kFoundWrong = 1, kUsage = 2, kNoDevice = 3, kBroken = 4;

struct Options {
  std::string tree, architectures = "sm_80,sm_90a", stage, out, state, work, program;
  std::vector<std::string> stages;
  bool quick = false, emulation = false;
  int jobs = 0, seconds = 0;
};

int prepare_tree(const Options& options) {
  Preparation what{.tree = options.tree,
                   .architectures = {},
                   .stages = options.stages,
                   .quick = options.quick,
                   .emulation = options.emulation,
                   .jobs = options.jobs};
  for (const std::string& text : base::split(options.architectures, ','))
    what.architectures.push_back(backend::cuda::parse_architecture(text));
  return prepare(what) == 0 ? kDone : kFoundWrong;
}

int list_stages() {
  for (const Stage& stage : stages()) fmt::print("{} {}\n", stage.name, stage.limit);
  return kDone;
}

void run_stage(const Stage& stage, const Options& options, Records& records) {
  if (stage.on_gpu != nullptr) {
    Gpu gpu(options.tree, options.quick);
    stage.on_gpu(gpu, records);
  } else if (stage.of_program != nullptr) {
    stage.of_program({.stage = options.stage,
                      .tree = options.tree,
                      .out = std::filesystem::path(options.out).parent_path(),
                      .work = options.work,
                      .program = options.program,
                      .quick = options.quick,
                      .seconds = options.seconds},
                     records);
  } else {
    throw base::UsageError("stage " + options.stage + " is torch_compare.py's");
  }
}

int run_stage(const Options& options) {
  for (const Stage& stage : stages()) {
    if (stage.name != options.stage) continue;
    Records records(options.out, options.stage, options.state);
    try {
      run_stage(stage, options, records);
    } catch (const std::exception& error) {  // the device's errors stay: only another process may go on
      records.add("end of the process", false, {{"finding", error.what()}});
      throw;
    }
    return records.failed() == 0 ? kDone : kFoundWrong;
  }
  throw base::UsageError("there is no stage " + options.stage);
}

int print_line(const std::string& text) {
  fmt::print("{}\n", text);
  return kDone;
}

/// Whether there is a GPU, and which.
int find_device() {
  try {
    const backend::cuda::Driver driver;
    const auto devices = driver.devices();
    if (devices.empty()) {
      fmt::print(stderr, "no GPU: the driver lists none\n");
      return kNoDevice;
    }
    fmt::print("{}\n", devices.front().name);
    return kDone;
  } catch (const base::EnvironmentError& error) {
    fmt::print(stderr, "no GPU: {}\n", error.what());
    return kNoDevice;
  }
}

int run(int argc, char** argv) {
  CLI::App app("Checks and times GPU kernels on a real device; see tools/device_check");
  app.require_subcommand(1);
  Options options;
  CLI::App* const prepare_command =
      app.add_subcommand("prepare", "compile every kernel, emulate every probe");
  prepare_command->add_option("--arch", options.architectures, "architectures, with commas between them");
  prepare_command->add_option("--stage", options.stages, "only what this stage runs; may be repeated");
  prepare_command->add_option("--jobs", options.jobs, "compilers at the same time");
  prepare_command->add_flag("--emulation", options.emulation, "also for the fake driver");
  CLI::App* const stage_command = app.add_subcommand("stage", "run one stage");
  stage_command->add_option("name", options.stage)->required();
  stage_command->add_option("--out", options.out, "file that gets the results, one line each")->required();
  stage_command->add_option("--state", options.state, "file from which a stage that died goes on");
  CLI::App* const lines_command =
      app.add_subcommand("command-lines", "have fusetune read every command line of a real check");
  for (CLI::App* const command : {stage_command, lines_command}) {
    command->add_option("--work", options.work, "folder for what is no result");
    command->add_option("--program", options.program, "fusetune");
  }
  stage_command->add_option("--seconds", options.seconds, "its limit");
  for (CLI::App* const command : {prepare_command, stage_command}) {
    command->add_option("--tree", options.tree, "the prepared folder")->required();
    command->add_flag("--quick", options.quick, "few and small kernels, no repetitions: a rehearsal");
  }
  CLI::App* const list_command = app.add_subcommand("list", "stages and their limits in seconds");
  app.add_subcommand("find", "print the first GPU's name");
  CLI::App* const nvrtc_command = app.add_subcommand("nvrtc", "print where NVRTC is");
  CLI::App* const problem_command =
      app.add_subcommand("problem", "print what the fake driver's kernels are for");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kDone : kUsage;
  }
  if (prepare_command->parsed()) return prepare_tree(options);
  if (stage_command->parsed()) return run_stage(options);
  if (lines_command->parsed())
    return check_command_lines(options.program, options.work) == 0 ? kDone : kFoundWrong;
  if (nvrtc_command->parsed()) return print_line(backend::cuda::Nvrtc().library().string());
  if (problem_command->parsed()) return print_line(tuned_problems(true).front().problem.key());
  return list_command->parsed() ? list_stages() : find_device();
}

}  // namespace
}  // namespace fusetune::device_check

int main(int argc, char** argv) {
  try {
    return fusetune::device_check::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fusetune_device_check: %s\n", error.what());
    return fusetune::device_check::kBroken;
  }
}
