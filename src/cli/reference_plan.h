// The plan that candidates are timed beside: all-fused, its kernel with the first schedule of its space. It
// is the same in every search of a problem on a device, unless a program version generates another kernel for
// it.
#pragma once

#include <string>
#include <vector>

#include "codegen/any_kernel.h"
#include "measure/session.h"

namespace fusetune::cli {

class AllFusedReference {
 public:
  /// Generates its kernel; none where that has no schedule.
  explicit AllFusedReference(measure::Session& session);

  /// Names the kernel in the settings of everything that was timed beside it; empty: there is none.
  const std::string& hash() const { return hash_; }
  /// Compiles it; empty where there is none or it does not compile, which is said. Throws Interrupted.
  measure::PlanKernels compile() const;

 private:
  measure::Session& session_;
  std::vector<codegen::AnyKernel> source_;  // one or none
  std::string hash_;
};

}  // namespace fusetune::cli
