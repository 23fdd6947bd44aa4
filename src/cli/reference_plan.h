// The plan that candidates are timed beside: unfused, every kernel with the first schedule of its space. It
// is the same in every search of a problem on a device, unless a program version generates other kernels for
// it.
#pragma once

#include <string>
#include <vector>

#include "codegen/kernel_source.h"
#include "measure/session.h"

namespace fusetune::cli {

class UnfusedReference {
 public:
  /// Generates its kernels. Throws base::UsageError where an operator has no schedule.
  explicit UnfusedReference(measure::Session& session);

  /// Names the kernels in the settings of everything that was timed beside them.
  const std::string& hash() const { return hash_; }
  /// Compiles them; empty where one does not compile, which is said. Throws Interrupted.
  measure::PlanKernels compile() const;

 private:
  measure::Session& session_;
  std::vector<codegen::KernelSource> sources_;
  std::string hash_;
};

}  // namespace fusetune::cli
