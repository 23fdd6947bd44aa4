// One problem's oracle and memory: what kernels compute is compared with float64.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "block/reference.h"
#include "gpu_block.h"
#include "records.h"

namespace fusetune::device_check {

/// What comparisons found so far.
struct Verdict {
  std::optional<std::string> wrong;  // the first thing
  double norm_error = 0, worst_error = 0;

  /// The figures, and `wrong` where something is.
  void add_to(nlohmann::ordered_json& fields) const;
};

class Judge {
 public:
  /// Computes the oracle: of 16-bit dtypes one that rounds where tensors are stored.
  Judge(Gpu& gpu, const block::Problem& problem);

  const block::Problem& problem() const { return problem_; }
  /// One segment on the oracle's inputs: all its live-out tensors. Throws backend::cuda::DriverError.
  Verdict check_segment(const codegen::GpuKernel& kernel);
  /// A whole plan, kernel after kernel through the same memory, from `hidden` to `output`.
  Verdict check_plan(std::span<const codegen::GpuKernel> kernels);

 private:
  void compare(block::Tensor tensor, Verdict& verdict);

  block::Problem problem_;
  block::Mask mask_;
  block::BlockData data_;
  block::Reference reference_;
  GpuBlock memory_;
};

/// Judges by problem: an oracle takes longer than the kernels that it judges.
class Judges {
 public:
  explicit Judges(Gpu& gpu) : gpu_(gpu) {}
  Judge& of(const block::Problem& problem);

 private:
  Gpu& gpu_;
  std::map<std::string, std::unique_ptr<Judge>> judges_;
};

}  // namespace fusetune::device_check
