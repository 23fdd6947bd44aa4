#include "measure/candidate.h"

#include <algorithm>

#include "base/error.h"

namespace fusetune::measure {
namespace {

using backend::CompiledKernel;
using block::Tensor;

void add_new(std::vector<Tensor>& tensors, std::span<const Tensor> more) {
  for (const Tensor tensor : more) {
    if (std::find(tensors.begin(), tensors.end(), tensor) == tensors.end()) tensors.push_back(tensor);
  }
}

}  // namespace

Candidate::Candidate(const Workbench& bench, std::span<const CompiledKernel> kernels, bool whole)
    : bench_(bench), kernels_(bench.device.load(kernels)) {
  for (const CompiledKernel& kernel : kernels) {
    add_new(poisoned_, kernel.source.writes());
    add_new(poisoned_, kernel.source.workspace());
    if (!whole) {
      add_new(inputs_, kernel.source.reads());
      add_new(outputs_, kernel.source.writes());
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

void Candidate::run_once() {
  write_inputs();
  kernels_->run();
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
    accepted_.push_back(bench_.device.read(tensor));
    result.tensors.push_back(
        compare_with_oracle(bench_.problem, bench_.mask, tensor, accepted_.back(), oracle));
    if (!result.tensors.back().passed) fail(describe(result.tensors.back(), bounds(bench_.problem.dtype)));
  }
  if (const std::string damage = bench_.device.find_damage(); !damage.empty()) fail(damage);
  if (result.outcome == Outcome::ok) {
    kernels_->run();  // on its own results: inputs must be as they were
    if (const std::string changed = recheck(); !changed.empty()) fail("run a second time, " + changed);
  }
  return result;
}

std::string Candidate::recheck() {
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    const std::vector<float> now = bench_.device.read(outputs_[i]);
    if (!same_values(bench_.problem, bench_.mask, outputs_[i], accepted_[i], now)) {
      return "its " + std::string(block::name(outputs_[i])) +
             " differs from the first run's: it changes its inputs, depends on what workspace held, or races";
    }
  }
  const std::string damage = bench_.device.find_damage();
  return damage.empty() ? "" : "it " + damage;
}

TimedSequence Candidate::sequence() {
  TimedSequence sequence;
  sequence.kernels = kernels_.get();
  sequence.copies = kernels_->ready();
  sequence.prepare = [this] { write_inputs(); };
  return sequence;
}

}  // namespace fusetune::measure
