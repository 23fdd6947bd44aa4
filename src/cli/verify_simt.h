// verify --backend simt: generated GPU kernels, run thread by thread on the CPU, against the reference.
#pragma once

#include <string>
#include <vector>

#include "block/problem.h"
#include "cli/output.h"
#include "measure/emulation.h"
#include "plan/fusion_mask.h"
#include "plan/fusion_plan.h"

namespace fusetune::cli {

/// Options of verify that only the emulator has.
class SimtOptions {
 public:
  void declare(Options& options);
  /// Throws base::UsageError for one of them, given without --backend simt.
  void refuse_elsewhere(const Options& options) const;
  measure::EmulationOptions emulation() const;
  lower::GpuTarget target() const;
  /// The options given, as a command line that repeats them.
  std::string command_line() const;

 private:
  const Options* options_ = nullptr;
  std::string mode_ = "checked", order_ = "forward", architecture_ = "sm_80";
  int blocks_ = 5;
};

struct SimtVerification {
  std::vector<plan::FusionMask> masks;
  std::vector<plan::SegmentVariant> variants;
  std::string schedule_text;   // one schedule for all variants; empty: the default
  bool all_schedules = false;  // all that are tried
  block::Problem problem;
  block::BlockData data;
  measure::EmulationOptions emulation;
  lower::GpuTarget target;
  std::string cxx;
  int jobs = 0;
  double compile_timeout = 120;
  RowsOutput output;
  std::string options_text;  // for commands that repeat a failure
};

/// Returns the exit code.
int verify_in_emulator(const SimtVerification& what);

}  // namespace fusetune::cli
