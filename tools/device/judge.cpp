#include "judge.h"

#include <algorithm>

#include "measure/check.h"

namespace fusetune::device_check {

using block::Tensor;

void Verdict::add_to(nlohmann::ordered_json& fields) const {
  fields["norm_error"] = rounded(norm_error);
  fields["worst_error"] = rounded(worst_error);
  if (wrong) fields["finding"] = *wrong;
}

Judge::Judge(Gpu& gpu, const block::Problem& problem)
    : problem_(problem),
      mask_(problem.mask, problem.batch, problem.seq),
      data_(block::generate_data(problem)),
      reference_(block::compute_reference(problem, mask_, data_, 0,
                                          problem.dtype == block::Dtype::f32
                                              ? block::ReferenceRounding::none
                                              : block::ReferenceRounding::as_stored)),
      memory_(gpu, problem, mask_, data_) {}

void Judge::compare(Tensor tensor, Verdict& verdict) {
  const measure::Oracle oracle = [this](Tensor which) { return std::span<const double>(reference_[which]); };
  const measure::TensorCheck found =
      measure::compare_with_oracle(problem_, mask_, tensor, memory_.read(tensor), oracle);
  verdict.norm_error = std::max(verdict.norm_error, found.norm_error);
  verdict.worst_error = std::max(verdict.worst_error, found.worst_error);
  if (!found.passed && !verdict.wrong)
    verdict.wrong = measure::describe(found, measure::bounds(problem_.dtype));
}

Verdict Judge::check_segment(const codegen::GpuKernel& kernel) {
  for (const Tensor tensor : kernel.reads) memory_.write(tensor, std::span<const double>(reference_[tensor]));
  Verdict verdict{.wrong = memory_.run(kernel)};
  for (const Tensor tensor : kernel.writes) compare(tensor, verdict);
  return verdict;
}

Verdict Judge::check_plan(std::span<const codegen::GpuKernel> kernels) {
  memory_.write(Tensor::hidden, std::span<const double>(reference_[Tensor::hidden]));
  Verdict verdict;
  for (const codegen::GpuKernel& kernel : kernels)
    if (const auto wrong = memory_.run(kernel); wrong && !verdict.wrong)
      verdict.wrong = kernel.variant.to_string() + ": " + *wrong;
  compare(Tensor::output, verdict);
  return verdict;
}

Judge& Judges::of(const block::Problem& problem) {
  std::unique_ptr<Judge>& found = judges_[problem.key()];
  if (found == nullptr) found = std::make_unique<Judge>(gpu_, problem);
  return *found;
}

}  // namespace fusetune::device_check
