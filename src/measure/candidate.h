// A candidate inside a worker: loaded kernels of one segment or one whole plan, checked and ready to be
// timed.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "backend/executor.h"
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
  backend::Executor& device;
};

class Candidate {
 public:
  /// Loads the kernels: one segment, or with `whole` a plan from `hidden` to `output`. Throws
  /// base::EnvironmentError when one cannot be loaded.
  Candidate(const Workbench& bench, std::span<const backend::CompiledKernel> kernels, bool whole);

  /// Runs it twice from the oracle's inputs with everything it writes poisoned first; compares what it must
  /// leave in memory with the oracle, the second run with the first, and looks at the guard bytes.
  CheckResult check();
  /// After timing: the guards are intact and the outputs are still those that check() accepted. Empty, or
  /// what is wrong.
  std::string recheck();

  /// For the timer, made ready. The candidate must outlive it.
  TimedSequence sequence();
  void run_once();

 private:
  void write_inputs();
  void poison();

  Workbench bench_;
  std::unique_ptr<backend::LaunchSequence> kernels_;
  std::vector<block::Tensor> inputs_, outputs_, poisoned_;
  std::vector<std::vector<float>> accepted_;  // outputs of the first run of check()
};

}  // namespace fusetune::measure
