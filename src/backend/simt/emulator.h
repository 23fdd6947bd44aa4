// Runs a GPU kernel on the CPU, thread by thread: for correctness, never for speed.
//
// Every GPU thread is a fiber. Operations of a warp, a block or the grid suspend their threads until the last
// one arrives, which computes for all; a missing synchronisation, an access out of bounds and the like are
// findings. See kernel_library.h for how a kernel comes here, device_memory.h for what it works on, and
// kernels/cuda/platform_simt.h for what it may call.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "backend/simt/device_memory.h"
#include "backend/simt/launch_counts.h"
#include "cuda/abi.h"

namespace fusetune::backend::simt {

/// fast: results, divergent collectives, deadlocks, endless loops, accesses far out of bounds.
/// checked: also every access by itself: races, bounds, alignment, initialisation; 2 to 4 times slower.
enum class Mode { fast, checked };

/// In which order threads and blocks come to run. Any of them is right for a right kernel.
enum class ThreadOrder { forward, reverse, random };

struct Kernel;  // kernel_library.h

struct LaunchOptions {
  int blocks = 1;
  std::int64_t shared_bytes = 0;
  bool cooperative = false;  // all blocks at once: what grid_barrier and counter_wait need
  ThreadOrder order = ThreadOrder::forward;
  std::uint32_t seed = 1;  // ThreadOrder::random
  double timeout_seconds = 60;
  LaunchCounts* counts = nullptr;  // the launch's are added; counting is slow
};

/// What is wrong with a kernel: the kernel's name, the fault, the source line, the threads.
struct Finding {
  std::string message;
};

/// Limits of a launch. Beyond them launch() throws base::UsageError.
inline constexpr int kMaxBlocks = 8192;
inline constexpr int kMaxLiveThreads = 24576;  // blocks * threads of a cooperative launch, or one block's
inline constexpr std::int64_t kMaxSharedBytes = 232448;  // what the largest GPU offers a block

/// Runs the kernel to its end, or to the first fault. Null pointers in `args` are the kernel's to avoid; all
/// others point into `memory`. After a finding the content of `memory` is undefined.
///
/// Not thread-safe: one launch at a time per process. While it runs, the process's handlers of SIGSEGV,
/// SIGBUS, SIGILL, SIGFPE and SIGALRM are the emulator's.
///
/// Throws base::UsageError for options no kernel could run with, base::EnvironmentError where the emulator
/// cannot work (see unavailable_reason).
std::optional<Finding> launch(const Kernel& kernel, const ft_gpu_args& args, DeviceMemory& memory,
                              const LaunchOptions& options);

/// Why this build of fusetune cannot run kernels; empty when it can. ThreadSanitizer does not follow fibers.
std::string unavailable_reason();

}  // namespace fusetune::backend::simt
