// A candidate inside a worker: loaded kernels of one segment or one whole plan, checked and ready to be
// timed.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backend/cpu/device_block.h"
#include "backend/cpu/runner.h"
#include "measure/check.h"
#include "measure/session.h"
#include "measure/shared_image.h"
#include "measure/timing.h"

namespace fusetune::measure {

/// What every candidate of a worker runs on.
struct Workbench {
  const block::Problem& problem;
  const block::Mask& mask;
  const SharedImage& image;
  backend::cpu::DeviceBlock& device;
  backend::cpu::Runner& runner;
};

class Candidate {
 public:
  /// Loads the kernels: one segment, or with `whole` a plan from `hidden` to `output`. Throws
  /// base::EnvironmentError when one cannot be loaded.
  Candidate(const Workbench& bench, std::span<const backend::cpu::CompiledKernel> kernels, bool whole);

  /// Runs it twice from the oracle's inputs with everything it writes poisoned first; compares what it must
  /// leave in memory with the oracle, the second run with the first, and looks at the guard bytes.
  CheckResult check();
  /// After timing: the guards are intact and the outputs are still those that check() accepted. Empty, or
  /// what is wrong.
  std::string recheck();

  /// For the timer. The candidate must outlive it.
  TimedSequence sequence();
  void run_once();
  std::span<const float> output() const { return bench_.device.tensor_view(block::Tensor::output); }

 private:
  void write_inputs();
  void poison();
  std::vector<backend::cpu::Launch> launches(int copy);

  Workbench bench_;
  std::vector<backend::cpu::LoadedKernel> kernels_;
  std::vector<block::Tensor> inputs_, outputs_, poisoned_;
  std::vector<std::vector<float>> accepted_;  // outputs of the first run of check()
};

}  // namespace fusetune::measure
