// fusetune_device_check: prepares a tree, lists the stages, runs one of them. tools/device_check calls it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "base/error.h"
#include "base/text.h"
#include "stages.h"
#include "tree.h"

namespace fusetune::device_check {

std::span<const Stage> stages() {
  static constexpr Stage kStages[] = {
      {"device", 20, describe_device}, {"probes", 25, run_probes},
      {"blocks", 30, stress_blocks},   {"f16", 45, check_f16},
      {"bf16", 45, check_bf16},        {"f32", 45, check_f32},
      {"plans", 30, check_plans},      {"rates", 15, time_rates},
      {"gemm", 40, time_gemm},         {"attention", 40, time_attention},
      {"segments", 40, time_segments},
  };
  return kStages;
}

namespace {

constexpr int kDone = 0, kFoundWrong = 1, kUsage = 2, kNoDevice = 3, kBroken = 4;

struct Options {
  std::string tree, architectures = "sm_80,sm_90a", stage, out, state;
  bool quick = false, emulation = false;
  int jobs = 0;
};

int prepare_tree(const Options& options) {
  Preparation what{.tree = options.tree,
                   .architectures = {},
                   .quick = options.quick,
                   .emulation = options.emulation,
                   .jobs = options.jobs};
  for (const std::string& text : base::split(options.architectures, ','))
    what.architectures.push_back(backend::cuda::parse_architecture(text));
  return prepare(what) == 0 ? kDone : kFoundWrong;
}

int list_stages() {
  for (const Stage& stage : stages()) fmt::print("{} {}\n", stage.name, stage.seconds);
  return kDone;
}

int run_stage(const Options& options) {
  for (const Stage& stage : stages()) {
    if (stage.name != options.stage) continue;
    Gpu gpu(options.tree, options.quick);
    Records records(options.out, options.stage, options.state);
    try {
      stage.run(gpu, records);
    } catch (const std::exception& error) {  // the device's errors stay: only another process may go on
      records.add("end of the process", false, {{"finding", error.what()}});
      throw;
    }
    return records.failed() == 0 ? kDone : kFoundWrong;
  }
  throw base::UsageError("there is no stage " + options.stage);
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
  prepare_command->add_option("--jobs", options.jobs, "compilers at the same time");
  prepare_command->add_flag("--emulation", options.emulation, "also for the fake driver");
  CLI::App* const stage_command = app.add_subcommand("stage", "run one stage");
  stage_command->add_option("name", options.stage)->required();
  stage_command->add_option("--out", options.out, "file that gets the results, one line each")->required();
  stage_command->add_option("--state", options.state, "file from which a stage that died goes on");
  for (CLI::App* const command : {prepare_command, stage_command}) {
    command->add_option("--tree", options.tree, "the prepared folder")->required();
    command->add_flag("--quick", options.quick, "few and small kernels, no repetitions: a rehearsal");
  }
  CLI::App* const list_command = app.add_subcommand("list", "stages and their limits in seconds");
  app.add_subcommand("find", "print the first GPU's name");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kDone : kUsage;
  }
  if (prepare_command->parsed()) return prepare_tree(options);
  if (stage_command->parsed()) return run_stage(options);
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
