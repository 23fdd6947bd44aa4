// Executor: one block's data on a device, and generated kernels running on them.
//
// It lives in a worker process. What differs between devices ends here: checking, timing and comparing
// (measure/) see launch sequences only.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/compiled_kernel.h"
#include "base/error.h"
#include "block/operators.h"

namespace fusetune::backend {

/// A launch, or the device under it, failed.
struct DeviceError : base::EnvironmentError {
  using base::EnvironmentError::EnvironmentError;
  /// The process cannot use the device any more: what was launched last is to blame, as for a crash.
  bool is_fatal = false;
  /// Memory or another resource of the device was short.
  bool is_resource_limit = false;
};

/// A call by which this process had a device do something; none where kernels are this process's own work.
struct HostCall {
  std::string name;           // "launch [7-9]"
  double begin = 0, end = 0;  // seconds, on the clock of the kernels' times
};

/// One pass, kernel by kernel.
struct StampedRun {
  std::vector<double> times;  // when the first kernel began and when each ended, seconds on one clock
  std::vector<HostCall> calls;
};

/// The kernels of a segment or a plan, loaded and in order.
class LaunchSequence {
 public:
  virtual ~LaunchSequence() = default;
  /// Puts the weights where passes take them from, in as many copies as the rotation asks for and memory
  /// allows, and returns how many. Sequences that were made ready since may have taken their place: to be
  /// called before timing, and untimed.
  virtual int ready() = 0;
  /// One pass, until it has ended.
  virtual void run() = 0;
  /// `passes` passes back to back with weight copies `first`, `first` + 1, ... in turn; seconds of all of
  /// them. After ready().
  virtual double run_timed(int first, int passes) = 0;
  /// One pass with weight copy `copy`. After ready().
  virtual StampedRun run_stamped(int copy) = 0;
};

class Executor {
 public:
  virtual ~Executor() = default;
  /// `values` in the tensor's shape, rounded to what it is stored as.
  virtual void write(block::Tensor tensor, std::span<const double> values) = 0;
  virtual void poison(block::Tensor tensor) = 0;  // NaN everywhere
  virtual std::vector<float> read(block::Tensor tensor) = 0;
  /// Empty, or what kernels did to memory that they must leave alone: "wrote outside of its tensors: ...".
  /// All is as it should be afterwards, so that the next kernel is not blamed.
  virtual std::string find_damage() = 0;
  /// Throws base::EnvironmentError when a kernel cannot be loaded. The sequence must go before the executor.
  virtual std::unique_ptr<LaunchSequence> load(std::span<const CompiledKernel> kernels) = 0;
  /// Replaces what the device's caches hold.
  virtual void flush_caches() = 0;
  /// Threads of this process that compute while a sequence runs; 0: the device computes by itself.
  virtual int threads() const = 0;
};

struct ExecutorOptions {
  int threads = 1;                  // of a CPU
  int device = 0;                   // ordinal of a GPU
  std::int64_t rotation_bytes = 0;  // that all copies of a sequence's weights should span; 0: one copy
  std::int64_t flush_bytes = 0;     // of flush_caches(); 0: never asked for
};

}  // namespace fusetune::backend
