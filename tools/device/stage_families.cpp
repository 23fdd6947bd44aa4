// Every kind of generated kernel against the oracle.
#include <algorithm>
#include <map>
#include <memory>

#include "block/reference.h"
#include "cases.h"
#include "gpu_block.h"
#include "measure/check.h"
#include "stages.h"

namespace fusetune::device_check {
namespace {

using block::Tensor;

/// One problem's oracle and memory.
struct Judge {
  Judge(Gpu& gpu, const block::Problem& the_problem)
      : problem(the_problem), mask(problem.mask, problem.batch, problem.seq) {
    const block::BlockData data = block::generate_data(problem);
    reference =
        block::compute_reference(problem, mask, data, 0,
                                 problem.dtype == block::Dtype::f32 ? block::ReferenceRounding::none
                                                                    : block::ReferenceRounding::as_stored);
    memory = std::make_unique<GpuBlock>(gpu, problem, mask, data);
  }

  block::Problem problem;
  block::Mask mask;
  block::Reference reference;
  std::unique_ptr<GpuBlock> memory;
};

class FamilyCheck {
 public:
  FamilyCheck(Gpu& gpu, Records& records) : gpu_(gpu), records_(records) {}

  void check(const FamilyCase& one) {
    for (const block::MaskSpec& mask : one.masks) {
      block::Problem problem = one.problem;
      problem.mask = mask;
      check(one.kernel, judge(problem));
    }
  }

 private:
  Judge& judge(const block::Problem& problem) {
    std::unique_ptr<Judge>& found = judges_[problem.key()];
    if (found == nullptr) found = std::make_unique<Judge>(gpu_, problem);
    return *found;
  }

  void check(const codegen::GpuKernel& kernel, Judge& on) {
    for (const Tensor tensor : kernel.reads) on.memory->write<double>(tensor, on.reference[tensor]);
    std::optional<std::string> wrong = on.memory->run(kernel);
    double norm_error = 0, worst_error = 0;
    const measure::Oracle oracle = [&on](Tensor which) {
      return std::span<const double>(on.reference[which]);
    };
    for (const Tensor tensor : kernel.writes) {
      const measure::TensorCheck found =
          measure::compare_with_oracle(on.problem, on.mask, tensor, on.memory->read(tensor), oracle);
      norm_error = std::max(norm_error, found.norm_error);
      worst_error = std::max(worst_error, found.worst_error);
      if (!found.passed && !wrong) wrong = measure::describe(found, measure::bounds(on.problem.dtype));
    }
    nlohmann::ordered_json fields = {{"schedule", kernel.schedule.to_string()},
                                     {"problem", on.problem.key()},
                                     {"norm_error", rounded(norm_error)},
                                     {"worst_error", rounded(worst_error)}};
    if (wrong) fields["finding"] = *wrong;
    records_.add(kernel.variant.to_string() + " " + on.problem.mask.to_string(), !wrong, fields);
  }

  Gpu& gpu_;
  Records& records_;
  std::map<std::string, std::unique_ptr<Judge>> judges_;
};

void check_families(Gpu& gpu, Records& records, block::Dtype dtype) {
  FamilyCheck check(gpu, records);
  int step = 0;
  for (const FamilyCase& one : family_cases(dtype, gpu.target(), gpu.quick()))
    if (records.begin_step(step++)) check.check(one);
}

}  // namespace

void check_f16(Gpu& gpu, Records& records) { check_families(gpu, records, block::Dtype::f16); }
void check_bf16(Gpu& gpu, Records& records) { check_families(gpu, records, block::Dtype::bf16); }
void check_f32(Gpu& gpu, Records& records) { check_families(gpu, records, block::Dtype::f32); }

}  // namespace fusetune::device_check
