// The emulated GPU while a launch runs: threads, warps and blocks. Internal to the emulator.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "backend/simt/emulator.h"
#include "backend/simt/fiber.h"
#include "backend/simt/kernel_library.h"
#include "backend/simt/shadow_memory.h"

namespace fusetune::backend::simt {

struct Warp;
struct Block;

/// An operation of the platform at one place of a kernel. Its threads must all be at the same one.
struct Statement {
  const char* operation = nullptr;  // "block_sync"; null: none
  const char* file = "";
  int line = 0;
  const void* pc = nullptr;

  std::string operation_text() const { return operation == nullptr ? "" : operation; }
};
inline bool same_statement(const Statement& a, const Statement& b) {
  return a.line == b.line && a.operation == b.operation &&
         (a.file == b.file || std::strcmp(a.file, b.file) == 0);
}
/// "block_sync at cuda/gemm.h:31"
std::string to_string(const Statement& statement);

/// A copy_async that has not been waited for.
struct PendingCopy {
  unsigned char* to;
  const unsigned char* from;
  int bytes;
  bool valid;
  unsigned group;
  const void* pc;
};

/// An access to shared memory that is to be counted.
struct SharedAccess {
  enum class Kind { matrix_load, copy, load, store };
  Kind kind;
  std::size_t offset, bytes;
  const void* pc;
};

/// One GPU thread.
struct Lane {
  Fiber fiber;
  Warp* warp = nullptr;
  const unsigned char* stack = nullptr;
  Stamp stamp = 0;
  void* operands = nullptr;  // of the warp operation it waits in
  Statement waits_in;
  std::vector<PendingCopy> copies;
  unsigned copy_group = 0;             // of the next copy
  std::vector<SharedAccess> accesses;  // since the warp last came together; counted launches only
  int thread = 0;
  int lane = 0;
  bool exited = false;
};

inline constexpr std::uint32_t kAllLanes = 0xffffffffu;

/// 32 threads. Bit i of a mask is lane i.
struct Warp {
  Block* block = nullptr;
  Lane* lanes = nullptr;
  std::uint32_t ready = 0;    // may run
  std::uint32_t arrived = 0;  // wait in the warp operation `at`
  std::uint32_t exited = 0;
  std::uint32_t epoch = 0;  // warp_syncs since the last barrier of the block
  int index = 0;
  bool queued = false;
  Statement at;
};

/// For each block of the launch, the number of its barriers: what it did before that one is known here.
using VectorClock = std::vector<std::uint32_t>;

/// What the threads of a block ask of a counter or of the grid; the same for all of them.
struct BlockRequest {
  std::uint32_t* word = nullptr;
  std::uint32_t number = 0;  // amount, target or total
  std::uint32_t* flag = nullptr;
  bool operator==(const BlockRequest&) const = default;
};

struct Block {
  int index = 0;
  Lane* lanes = nullptr;
  Warp* warps = nullptr;
  unsigned char* shared = nullptr;
  ShadowCell* shared_shadow = nullptr;  // checked launches
  int arrived = 0;                      // threads that wait in the block operation `at`
  int exited = 0;
  bool waits_for_counter = false;  // all threads have arrived, the counter has not
  std::uint32_t epoch = 0;         // barriers of the block since the last one of the grid
  Statement at;
  BlockRequest request;
  bool answer = false;  // of counter_last
  VectorClock clock;    // empty: knows nothing of other blocks
};

/// What is known of a counter: its value after each addition, and what who waits for that value then knows.
struct Counter {
  struct Addition {
    std::uint32_t value;
    VectorClock clock;
  };
  std::uint32_t value = 0;
  std::vector<Addition> additions;
};

/// What is wrong, in two halves: the source line goes between them.
struct Fault {
  std::string what;    // "race: write of shared byte 4 of 64"
  std::string detail;  // ", unsynchronised with ...", or empty
};

/// The first fault of a launch.
struct Failure {
  Fault fault;
  Statement place;  // operation null: only its pc counts
  int block = -1;   // -1: no single thread's fault
  int thread = -1;
};

/// One launch. Everything the hooks touch is public to them: this is the emulator's inside.
struct Machine {
  Machine(const Kernel& the_kernel, const ft_gpu_args& the_args, DeviceMemory& the_memory,
          const LaunchOptions& the_options);
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  const Kernel& kernel;
  const ft_gpu_args args;
  DeviceMemory& memory;
  const LaunchOptions options;
  const bool checked;
  const std::size_t shared_bytes;

  Fiber scheduler;
  std::vector<Lane> lanes;
  std::vector<Warp> warps;
  std::vector<Block> blocks;  // those that are alive: all, or the one that runs
  std::vector<Warp*> queue;   // warps that have something to run
  std::size_t queue_head = 0;
  std::uint32_t random_state = 1;

  int grid_arrived = 0;  // threads of all blocks in grid_barrier `grid_at`
  Statement grid_at;
  std::uint32_t grid_epoch = 0;
  std::map<std::uint32_t*, Counter> counters;
  std::unordered_map<const ShadowCell*, std::vector<Stamp>> more_readers;  // one stamp per block

  bool failed = false;
  Failure failure;
  Fault (*write_fault)(const void*) = nullptr;  // the thread that fails asks for these words
  const void* write_context = nullptr;
  volatile bool timed_out = false;  // set by the timer's signal
};

/// The launch that runs, and its thread that runs: null when the host or the scheduler does.
extern Machine* the_machine;
extern Lane* current_lane;

/// Leaves the running thread for good; the scheduler then calls `write(context)` for the words.
[[noreturn]] void fail_with(const Statement& place, Fault (*write)(const void*), const void* context);

/// Ends the launch with a finding. Called by threads only, and never returns to them: their stacks are not
/// unwound, so that nothing on them may own memory. `write` makes the words, on the scheduler's stack.
template <class Writer>
[[noreturn]] void fail(const Statement& place, const Writer& write) {
  fail_with(
      place, [](const void* context) { return (*static_cast<const Writer*>(context))(); }, &write);
}

/// A thread's name in findings: "block 2 thread 40".
std::string thread_name(int block, int thread);

}  // namespace fusetune::backend::simt
