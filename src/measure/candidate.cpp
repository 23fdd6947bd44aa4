#include "measure/candidate.h"

#include <algorithm>

#include "base/error.h"

namespace fusetune::measure {
namespace {

using backend::cpu::CompiledKernel;
using backend::cpu::Launch;
using backend::cpu::LoadedKernel;
using block::Tensor;

void add_new(std::vector<Tensor>& tensors, std::span<const Tensor> more) {
  for (const Tensor tensor : more) {
    if (std::find(tensors.begin(), tensors.end(), tensor) == tensors.end()) tensors.push_back(tensor);
  }
}

}  // namespace

Candidate::Candidate(const Workbench& bench, std::span<const CompiledKernel> kernels, bool whole)
    : bench_(bench) {
  kernels_.reserve(kernels.size());
  for (const CompiledKernel& kernel : kernels) {
    kernels_.emplace_back(kernel);
    add_new(poisoned_, kernel.source.writes);
    add_new(poisoned_, kernel.source.workspace);
    if (!whole) {
      add_new(inputs_, kernel.source.reads);
      add_new(outputs_, kernel.source.writes);
    }
  }
  if (whole) {
    inputs_ = {Tensor::hidden};
    outputs_ = {Tensor::output};
  }
}

void Candidate::write_inputs() {
  for (const Tensor tensor : inputs_) bench_.device.write(tensor, bench_.image.oracle(tensor));
}

void Candidate::poison() {
  for (const Tensor tensor : poisoned_) bench_.device.poison(tensor);
}

std::vector<Launch> Candidate::launches(int copy) {
  std::vector<Launch> launches;
  for (const LoadedKernel& kernel : kernels_) {
    launches.push_back({kernel.function(), bench_.device.arguments(kernel, copy)});
  }
  return launches;
}

void Candidate::run_once() {
  write_inputs();
  bench_.runner.run(launches(0));
}

CheckResult Candidate::check() {
  poison();
  run_once();
  CheckResult result{.outcome = Outcome::ok, .message = {}, .tensors = {}};
  const auto fail = [&result](const std::string& message) {
    result.outcome = Outcome::wrong_result;
    result.message += (result.message.empty() ? "" : "\n") + message;
  };
  accepted_.clear();
  const Oracle oracle = [this](Tensor tensor) { return bench_.image.oracle(tensor); };
  for (const Tensor tensor : outputs_) {
    const std::span<const float> got = bench_.device.tensor_view(tensor);
    accepted_.emplace_back(got.begin(), got.end());
    result.tensors.push_back(compare_with_oracle(bench_.problem, bench_.mask, tensor, got, oracle));
    if (!result.tensors.back().passed) fail(describe(result.tensors.back(), bounds(bench_.problem.dtype)));
  }
  if (const std::string guards = bench_.device.check_guards(); !guards.empty()) {
    fail("wrote outside of its tensors: guard bytes overwritten around " + guards);
  }
  if (result.outcome == Outcome::ok) {
    bench_.runner.run(launches(0));  // on its own results: inputs must be as they were
    if (const std::string changed = recheck(); !changed.empty()) fail("run a second time, " + changed);
  }
  return result;
}

std::string Candidate::recheck() {
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    const auto now = bench_.device.tensor_view(outputs_[i]);
    if (!same_values(bench_.problem, bench_.mask, outputs_[i], accepted_[i], now)) {
      return "its " + std::string(block::name(outputs_[i])) +
             " differs from the first run's: it changes its inputs, depends on what workspace held, or races";
    }
  }
  const std::string guards = bench_.device.check_guards();
  return guards.empty() ? "" : "it wrote outside of its tensors: guard bytes overwritten around " + guards;
}

TimedSequence Candidate::sequence() {
  std::vector<const LoadedKernel*> pointers;
  for (const LoadedKernel& kernel : kernels_) pointers.push_back(&kernel);
  TimedSequence sequence;
  const int copies = std::max(1, bench_.device.copies(pointers));
  for (int copy = 0; copy < copies; ++copy) sequence.copies.push_back(launches(copy));
  sequence.prepare = [this] { write_inputs(); };
  return sequence;
}

}  // namespace fusetune::measure
