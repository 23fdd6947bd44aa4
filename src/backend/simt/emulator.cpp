#include "backend/simt/emulator.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "backend/simt/machine.h"
#include "backend/simt/operations.h"
#include "backend/simt/scheduler.h"
#include "backend/simt/source_location.h"
#include "backend/simt/traps.h"
#include "base/error.h"
#include "base/number.h"

namespace fusetune::backend::simt {
namespace {

constexpr int kPoison = 0xFF;
constexpr int kMaxThreadsOfBlock = 1024;
constexpr std::size_t kSharedAlignment = 128;
constexpr std::size_t kSharedStride = 256 * 1024;  // of one block's shared memory, guard page included
constexpr std::size_t kGuardBytes = 4096;
constexpr std::size_t kStackStagger = 128;
constexpr std::size_t kStackReserve = 64;  // keeps the first frame below the top

std::size_t round_up(std::size_t value, std::size_t unit) { return (value + unit - 1) / unit * unit; }

// ------------------------------------------------------------------------------------- memory of launches

/// Shared memory of several blocks, each ending (up to alignment) at a guard page.
class SharedPool {
 public:
  ~SharedPool() { release(); }
  SharedPool() = default;
  SharedPool(const SharedPool&) = delete;
  SharedPool& operator=(const SharedPool&) = delete;

  void reserve(std::size_t blocks) {
    if (blocks <= blocks_) return;
    release();
    void* const memory = mmap(nullptr, blocks * kSharedStride, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
      throw base::EnvironmentError("no memory for the shared memory of " + std::to_string(blocks) +
                                   " blocks in the emulator; launch fewer blocks");
    }
    memory_ = static_cast<unsigned char*>(memory);
    blocks_ = blocks;
    for (std::size_t i = 0; i < blocks; ++i) mprotect(guard(i), kGuardBytes, PROT_NONE);
    shadow_ = ShadowRegion();
  }
  unsigned char* of_block(std::size_t index, std::size_t bytes) const {
    return guard(index) - round_up(bytes, kSharedAlignment);
  }
  ShadowCell* shadow_of(const unsigned char* shared) {
    if (!shadow_) shadow_ = ShadowRegion(blocks_ * kSharedStride);
    return shadow_.cells() + static_cast<std::size_t>(shared - memory_) / kShadowGranule;
  }

 private:
  unsigned char* guard(std::size_t index) const {
    return memory_ + (index + 1) * kSharedStride - kGuardBytes;
  }
  void release() {
    if (memory_ != nullptr) munmap(memory_, blocks_ * kSharedStride);
    memory_ = nullptr;
    blocks_ = 0;
  }

  unsigned char* memory_ = nullptr;
  std::size_t blocks_ = 0;
  ShadowRegion shadow_;
};

/// Kept from launch to launch: mapping it costs more than a small launch.
struct Arenas {
  StackPool stacks;
  SharedPool shared;
};

Arenas& arenas() {
  static Arenas instance;
  return instance;
}

// ------------------------------------------------------------------------------------- setting up

void run_thread() {
  Lane& lane = *current_lane;
  the_machine->kernel.function(the_machine->args);
  exit_thread(lane);
}

void set_up_lane(Lane& lane, Warp& warp, int thread, std::size_t index) {
  unsigned char* const stack = arenas().stacks.stack(index);
  lane.warp = &warp;
  lane.thread = thread;
  lane.lane = thread % 32;
  lane.stack = stack;
  lane.operands = nullptr;
  lane.waits_in = {};
  lane.copies.clear();
  lane.copy_group = 0;
  lane.accesses.clear();
  lane.exited = false;
  const std::size_t offset = kStackReserve + static_cast<std::size_t>(lane.lane) * kStackStagger;
  prepare_fiber(lane.fiber, stack, StackPool::kStackBytes, offset, &run_thread);
}

/// Block `index` of the grid, in the place `slot` of those that are alive.
void set_up_block(Machine& machine, std::size_t slot, int index) {
  const int threads = machine.kernel.threads;
  const std::size_t first = slot * static_cast<std::size_t>(threads);
  Block& block = machine.blocks[slot];
  block = {};
  block.index = index;
  block.epoch = 1;  // so that no stamp is 0
  block.lanes = &machine.lanes[first];
  block.warps = &machine.warps[first / 32];
  block.shared = arenas().shared.of_block(slot, machine.shared_bytes);
  std::memset(block.shared, kPoison, round_up(machine.shared_bytes, kSharedAlignment));
  if (machine.checked && machine.shared_bytes > 0) {
    block.shared_shadow = arenas().shared.shadow_of(block.shared);
    const std::size_t cells = (machine.shared_bytes + kShadowGranule - 1) / kShadowGranule;
    std::memset(static_cast<void*>(block.shared_shadow), 0, cells * sizeof(ShadowCell));
  }
  for (int i = 0; i < threads / 32; ++i) {
    Warp& warp = block.warps[i];
    warp = {};
    warp.block = &block;
    warp.index = i;
    warp.lanes = block.lanes + 32 * i;
  }
  for (int i = 0; i < threads; ++i) {
    set_up_lane(block.lanes[i], block.warps[i / 32], i, first + static_cast<std::size_t>(i));
  }
  restamp(machine, block);
  wake(machine, block);
}

void reserve(Machine& machine, std::size_t live_blocks) {
  const std::size_t lanes = live_blocks * static_cast<std::size_t>(machine.kernel.threads);
  arenas().stacks.reserve(lanes);
  arenas().shared.reserve(live_blocks);
  machine.lanes.resize(lanes);
  machine.warps.resize(lanes / 32);
  machine.blocks.resize(live_blocks);
}

// ------------------------------------------------------------------------------------- running

/// What the threads of a block that will never go on are waiting for.
std::string describe_waiting(const Machine& machine, const Block& block) {
  std::vector<std::pair<Statement, int>> places;
  for (int i = 0; i < machine.kernel.threads; ++i) {
    const Lane& lane = block.lanes[i];
    if (lane.exited) continue;
    const auto known = std::find_if(places.begin(), places.end(), [&lane](const auto& place) {
      return same_statement(place.first, lane.waits_in);
    });
    if (known != places.end()) {
      ++known->second;
    } else {
      places.emplace_back(lane.waits_in, 1);
    }
  }
  std::string text;
  for (const auto& [statement, count] : places) {
    text += "; block " + std::to_string(block.index) + ": " + std::to_string(count) + " of " +
            std::to_string(machine.kernel.threads) + " threads wait in " + to_string(statement);
  }
  if (block.waits_for_counter) {
    text += " (the counter is " + std::to_string(*block.request.word) + ", wanted " +
            std::to_string(block.request.number) + ")";
  }
  return text;
}

std::string name_of_deadlock(const Machine& machine) {
  for (const Block& block : machine.blocks) {
    for (int i = 0; i < machine.kernel.threads / 32; ++i) {
      if (block.warps[i].arrived != 0) return "warp divergence: not all lanes arrive";
    }
    if (block.arrived != 0 && block.arrived != machine.kernel.threads) {
      return "barrier divergence: not all threads arrive";
    }
  }
  return "deadlock: blocks wait for ever";
}

/// Nothing is ready: right if all have ended.
void require_all_exited(Machine& machine) {
  constexpr int kShownBlocks = 3;
  int waiting = 0;
  std::string detail;
  for (const Block& block : machine.blocks) {
    if (block.exited == machine.kernel.threads) continue;
    if (++waiting <= kShownBlocks) detail += describe_waiting(machine, block);
  }
  if (waiting == 0) return;
  machine.failed = true;
  machine.failure.fault.what = name_of_deadlock(machine);
  machine.failure.fault.detail = detail;
}

bool stopped(const Machine& machine) { return machine.failed || machine.timed_out; }

void run_cooperative(Machine& machine) {
  const auto count = static_cast<std::size_t>(machine.options.blocks);
  reserve(machine, count);
  for (std::size_t i = 0; i < count; ++i) set_up_block(machine, i, static_cast<int>(i));
  run_until_idle(machine);
  if (!stopped(machine)) require_all_exited(machine);
}

/// The order in which blocks run that need not live at the same time.
std::vector<int> order_of_blocks(Machine& machine) {
  std::vector<int> order(static_cast<std::size_t>(machine.options.blocks));
  std::iota(order.begin(), order.end(), 0);
  if (machine.options.order == ThreadOrder::reverse) std::reverse(order.begin(), order.end());
  if (machine.options.order == ThreadOrder::random) {
    for (std::size_t i = order.size(); i > 1; --i) {
      std::swap(order[i - 1], order[random_number(machine) % i]);
    }
  }
  return order;
}

void run_one_by_one(Machine& machine) {
  reserve(machine, 1);
  for (const int index : order_of_blocks(machine)) {
    machine.queue.clear();
    machine.queue_head = 0;
    set_up_block(machine, 0, index);
    run_until_idle(machine);
    if (!stopped(machine)) require_all_exited(machine);
    if (stopped(machine)) return;
  }
}

// ------------------------------------------------------------------------------------- the verdict

/// What no single access showed.
void check_afterwards(Machine& machine) {
  if (machine.failed) return;
  if (machine.timed_out) {
    machine.failed = true;
    machine.failure.fault.what = "timeout: still running after " +
                                 base::format_shortest(machine.options.timeout_seconds) +
                                 " s, an endless loop?";
    return;
  }
  if (const Buffer* buffer = machine.memory.find_damaged_margin()) {
    machine.failed = true;
    machine.failure.fault.what = "out of bounds write next to global '" + buffer->name + "'";
    machine.failure.fault.detail = "; a checked launch tells where";
  }
}

std::string location(const Machine& machine, const Statement& place) {
  std::string text = source_location(*machine.kernel.library, place.pc);
  if (text.empty() && place.operation != nullptr) {
    text = std::string(place.file) + ":" + std::to_string(place.line);
  }
  return text;
}

Finding describe(const Machine& machine) {
  const Failure& failure = machine.failure;
  std::string message = "kernel " + machine.kernel.symbol + ": " + failure.fault.what;
  const std::string place = location(machine, failure.place);
  if (!place.empty()) message += " at " + place;
  message += failure.fault.detail;
  if (failure.block >= 0) message += " [" + thread_name(failure.block, failure.thread) + "]";
  return {message};
}

void require_sensible(const Kernel& kernel, const LaunchOptions& options) {
  const auto refuse = [&kernel](const std::string& reason) {
    throw base::UsageError("cannot launch kernel " + kernel.symbol + " in the emulator: " + reason);
  };
  const std::int64_t live = std::int64_t{kernel.threads} * (options.cooperative ? options.blocks : 1);
  if (kernel.threads < 32 || kernel.threads > kMaxThreadsOfBlock || kernel.threads % 32 != 0) {
    refuse(std::to_string(kernel.threads) + " threads per block are no multiple of 32 up to 1024");
  }
  if (options.blocks < 1 || options.blocks > kMaxBlocks) {
    refuse(std::to_string(options.blocks) + " blocks; 1 to " + std::to_string(kMaxBlocks) + " are possible");
  }
  if (live > kMaxLiveThreads) {
    refuse("a cooperative launch of " + std::to_string(live) + " threads; at most " +
           std::to_string(kMaxLiveThreads) + " can live at once: launch fewer blocks");
  }
  if (options.shared_bytes < 0 || options.shared_bytes > kMaxSharedBytes) {
    refuse(std::to_string(options.shared_bytes) + " bytes of shared memory; at most " +
           std::to_string(kMaxSharedBytes) + " are possible");
  }
  if (!(options.timeout_seconds > 0)) refuse("the timeout must be positive");
}

}  // namespace

std::string unavailable_reason() {
#if defined(__SANITIZE_THREAD__)
  return "this fusetune is built with ThreadSanitizer, which does not follow the emulator's fibers; use "
         "another build";
#else
  return {};
#endif
}

std::optional<Finding> launch(const Kernel& kernel, const ft_gpu_args& args, DeviceMemory& memory,
                              const LaunchOptions& options) {
  if (const std::string reason = unavailable_reason(); !reason.empty()) {
    throw base::EnvironmentError("cannot run kernel " + kernel.symbol + " in the emulator: " + reason);
  }
  require_sensible(kernel, options);
  if (the_machine != nullptr) throw base::InternalError("the emulator runs one launch at a time");

  Machine machine(kernel, args, memory, options);
  {
    const Traps traps(arenas().stacks, options.timeout_seconds);
    if (options.cooperative) {
      run_cooperative(machine);
    } else {
      run_one_by_one(machine);
    }
  }
  check_afterwards(machine);
  arenas().stacks.trim();
  if (!machine.failed) return std::nullopt;
  return describe(machine);
}

}  // namespace fusetune::backend::simt
