// Runs sequences of generated kernels on pinned, actively waiting threads, and times them.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <span>

#include "cpu/abi.h"

namespace fusetune::backend::cpu {

using SegmentFunction = void (*)(const ft_args*, int thread, int threads, ft_barrier*);

/// One kernel launch: a loaded function and its arguments.
struct Launch {
  SegmentFunction function = nullptr;
  const ft_args* args = nullptr;
};

class Runner {
 public:
  /// Starts `threads` - 1 workers; the calling thread is thread 0. Threads are pinned to the CPUs this
  /// process may use; FTZ/DAZ are set during kernels and restored. Throws base::EnvironmentError.
  explicit Runner(int threads);
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  int threads() const;
  /// Runs the launches in order, all threads meeting at a barrier between two launches.
  void run(std::span<const Launch> launches);
  /// The same, timed by thread 0 on the steady clock from before the first to after the last launch, in
  /// seconds. Workers are already spinning when the clock starts.
  double run_timed(std::span<const Launch> launches);
  /// The same, with the time at which each launch ended: what lies between two times is a kernel and the
  /// barrier behind it. `times` has one more element than there are launches, the first for the beginning.
  void run_stamped(std::span<const Launch> launches, std::span<std::chrono::steady_clock::time_point> times);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fusetune::backend::cpu
