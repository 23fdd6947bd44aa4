// The plan that candidates are timed beside: all-fused, its kernel with the first schedule of its space. It
// is the same in every search of a problem on a device, unless a program version generates another kernel for
// it.
#pragma once

#include <string>
#include <vector>

#include "codegen/kernel_source.h"
#include "measure/session.h"

namespace fusetune::cli {

class AllFusedReference {
 public:
  /// Generates its kernels; none where an operator has no schedule.
  explicit AllFusedReference(measure::Session& session);

  /// Names the kernels in the settings of everything that was timed beside them; empty: there are none.
  const std::string& hash() const { return hash_; }
  /// Compiles them; empty where one does not compile, which is said. Throws Interrupted.
  measure::PlanKernels compile() const;

 private:
  measure::Session& session_;
  std::vector<codegen::KernelSource> sources_;
  std::string hash_;
};

}  // namespace fusetune::cli
