#include "measure/emulation.h"

#include "block/reference.h"

namespace fusetune::measure {

using block::Tensor;

struct Emulation::Impl {
  Impl(const block::Problem& the_problem, const block::BlockData& data, const EmulationOptions& the_options)
      : problem(the_problem),
        options(the_options),
        mask(problem.mask, problem.batch, problem.seq),
        reference(block::compute_reference(problem, mask, data, 0,
                                           problem.dtype == block::Dtype::f32
                                               ? block::ReferenceRounding::none
                                               : block::ReferenceRounding::as_stored)),
        memory(problem, mask, data) {}

  /// Runs kernels one after the other; false with the finding in `result`.
  bool run(std::span<const EmulatedKernel> kernels, CheckResult& result) {
    for (const EmulatedKernel& kernel : kernels) {
      const auto loaded = kernel.library->kernel(kernel.source.symbol);
      if (const auto finding = memory.run(kernel.source, loaded, options.run)) {
        result.outcome = Outcome::wrong_result;
        result.message = finding->message;
        return false;
      }
    }
    return true;
  }

  void compare(Tensor tensor, CheckResult& result) {
    const std::vector<float> got = memory.read(tensor);
    const Oracle oracle = [this](Tensor which) { return std::span<const double>(reference[which]); };
    result.tensors.push_back(compare_with_oracle(problem, mask, tensor, got, oracle));
    if (result.tensors.back().passed) return;
    result.outcome = Outcome::wrong_result;
    result.message +=
        (result.message.empty() ? "" : "\n") + describe(result.tensors.back(), bounds(problem.dtype));
  }

  block::Problem problem;
  EmulationOptions options;
  block::Mask mask;
  block::Reference reference;
  backend::simt::SimtBlock memory;
};

Emulation::Emulation(const block::Problem& problem, const block::BlockData& data,
                     const EmulationOptions& options)
    : impl_(std::make_unique<Impl>(problem, data, options)) {}
Emulation::~Emulation() = default;

CheckResult Emulation::check_segment(const EmulatedKernel& kernel) {
  CheckResult result{.outcome = Outcome::ok, .message = {}, .tensors = {}};
  for (const Tensor tensor : kernel.source.reads) impl_->memory.write(tensor, impl_->reference[tensor]);
  if (impl_->run({&kernel, 1}, result))
    for (const Tensor tensor : kernel.source.writes) impl_->compare(tensor, result);
  return result;
}

CheckResult Emulation::check_plan(std::span<const EmulatedKernel> kernels) {
  CheckResult result{.outcome = Outcome::ok, .message = {}, .tensors = {}};
  impl_->memory.write(Tensor::hidden, impl_->reference[Tensor::hidden]);
  if (impl_->run(kernels, result)) impl_->compare(Tensor::output, result);
  return result;
}

}  // namespace fusetune::measure
