#include "backend/simt/operations.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "backend/simt/access_check.h"
#include "backend/simt/access_counts.h"
#include "backend/simt/machine.h"
#include "backend/simt/scheduler.h"
#include "backend/simt/warp_operations.h"

namespace fusetune::backend::simt {
namespace {

// The caller's place: the hooks are the functions that use it, never inlined into each other.
#define FT_RETURN_ADDRESS __builtin_return_address(0)

constexpr int kPoison = 0xFF;
constexpr std::size_t kMatrixRowBytes = 16;

int lanes_in(std::uint32_t mask) { return __builtin_popcount(mask); }

std::string threads_text(int count) {
  return count == 1 ? std::string("1 thread waits") : std::to_string(count) + " threads wait";
}

// ------------------------------------------------------------------------------------- stamps

void restamp(const Machine& machine, Warp& warp) {
  const Block& block = *warp.block;
  const Stamp common =
      stamp::kGridEpoch.put(machine.grid_epoch) | stamp::kBlock.put(static_cast<std::uint32_t>(block.index)) |
      stamp::kBlockEpoch.put(block.epoch) | stamp::kWarp.put(static_cast<std::uint32_t>(warp.index)) |
      stamp::kWarpEpoch.put(warp.epoch);
  for (int i = 0; i < 32; ++i) warp.lanes[i].stamp = common | static_cast<std::uint32_t>(i);
}

void require_countable(std::uint32_t count, stamp::Field field, const Statement& statement) {
  if (count < field.limit()) return;
  fail(statement, [&] {
    return Fault{"too many barriers to check",
                 ": more than " + std::to_string(field.limit() - 1) + " in a row; use smaller shapes"};
  });
}

// ------------------------------------------------------------------------------------- of a warp

/// Brings the lane's operands; true in the lane that came last, which computes and calls finish_warp().
/// The others return, with false, when it has.
bool arrive_in_warp(Lane& lane, void* operands, const Statement& statement) {
  Warp& warp = *lane.warp;
  lane.operands = operands;
  if (warp.exited != 0) {
    fail(statement, [&] {
      return Fault{"warp divergence: " + to_string(statement),
                   " is missing lanes: " + std::to_string(lanes_in(warp.exited)) + " have exited"};
    });
  }
  if (warp.arrived == 0) {
    warp.at = statement;
  } else if (!same_statement(warp.at, statement)) {
    fail(statement, [&] {
      return Fault{"warp divergence: a lane is in " + statement.operation_text(),
                   " while other lanes of its warp wait in " + to_string(warp.at)};
    });
  }
  warp.arrived |= 1u << lane.lane;
  if (warp.arrived == kAllLanes) return true;
  wait_in(lane, statement);
  return false;
}

void finish_warp(Lane& lane) {
  Warp& warp = *lane.warp;
  count_accesses(warp);
  warp.arrived = 0;
  warp.ready = kAllLanes;
  Machine& machine = *the_machine;
  // Sometimes another warp's turn: otherwise warps would only meet at barriers.
  if (machine.options.order == ThreadOrder::random && (random_number(machine) & 3) == 0) yield(lane);
}

template <class Operands>
OfLanes<Operands> operands_of(const Warp& warp) {
  OfLanes<Operands> operands;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    operands[i] = static_cast<Operands*>(warp.lanes[i].operands);
  }
  return operands;
}

std::uint32_t shuffle_lanes(std::uint32_t value, int source, const Statement& statement) {
  Lane& lane = *current_lane;
  ShuffleOperands operands{value, source, 0};
  if (arrive_in_warp(lane, &operands, statement)) {
    shuffle(operands_of<ShuffleOperands>(*lane.warp));
    finish_warp(lane);
  }
  return operands.result;
}

void multiply_lanes(MmaOperands operands, HalfFormat format, const Statement& statement) {
  Lane& lane = *current_lane;
  if (arrive_in_warp(lane, &operands, statement)) {
    multiply(operands_of<MmaOperands>(*lane.warp), format);
    if (the_machine->options.counts != nullptr) ++the_machine->options.counts->products;
    finish_warp(lane);
  }
}

void load_matrices_of_lanes(LdmatrixOperands operands, bool transposed, const Statement& statement) {
  Lane& lane = *current_lane;
  require_shared(operands.row, kMatrixRowBytes, statement.pc);
  if (the_machine->checked) {
    // Another lane uses the row: only a warp_sync orders it after a lane's own stores.
    check_access(operands.row, kMatrixRowBytes, AccessKind::read, true,
                 stamp::with_lane(lane.stamp, stamp::kWholeWarp), statement.pc);
  }
  note_shared_access(SharedAccess::Kind::matrix_load, operands.row, kMatrixRowBytes, statement.pc);
  if (arrive_in_warp(lane, &operands, statement)) {
    load_matrices(operands_of<LdmatrixOperands>(*lane.warp), transposed);
    finish_warp(lane);
  }
}

// ------------------------------------------------------------------------------------- of a block

/// True in the thread that came last, after which it completes the operation; the others return when it has.
bool arrive_in_block(Lane& lane, const Statement& statement, const BlockRequest& request = {}) {
  Block& block = *lane.warp->block;
  if (block.exited != 0) {
    fail(statement, [&] {
      return Fault{"barrier divergence: " + to_string(statement),
                   " is reached after " + std::to_string(block.exited) + " threads of the block have exited"};
    });
  }
  if (block.arrived == 0) {
    block.at = statement;
    block.request = request;
  } else if (!same_statement(block.at, statement)) {
    fail(statement, [&] {
      return Fault{"barrier divergence: a thread is in " + statement.operation_text(),
                   " while " + threads_text(block.arrived) + " in " + to_string(block.at)};
    });
  } else if (!(block.request == request)) {
    fail(statement, [&] {
      return Fault{"the threads of a block disagree on the operands of " + statement.operation_text(), {}};
    });
  }
  if (++block.arrived == the_machine->kernel.threads) return true;
  wait_in(lane, statement);
  return false;
}

/// What every barrier of a block does; then its threads may go on.
void pass_barrier(Machine& machine, Block& block) {
  block.arrived = 0;
  ++block.epoch;
  if (machine.checked) require_countable(block.epoch, stamp::kBlockEpoch, block.at);
  const int count = machine.kernel.threads / 32;
  for (int i = 0; i < count; ++i) {
    count_accesses(block.warps[i]);
    block.warps[i].epoch = 0;
  }
  restamp(machine, block);
  wake(machine, block);
}

// ------------------------------------------------------------------------------------- of counters

void merge(VectorClock& into, const VectorClock& from) {
  if (into.size() < from.size()) into.resize(from.size(), 0);
  for (std::size_t i = 0; i < from.size(); ++i) into[i] = std::max(into[i], from[i]);
}

/// The counter's record; a new one where a plain store has changed the value.
Counter& counter_at(Machine& machine, std::uint32_t* word) {
  Counter& counter = machine.counters[word];
  if (counter.value != *word) counter = {*word, {}};
  return counter;
}

/// Adds to the counter, and publishes what the block did before its last barrier.
void release(Machine& machine, Block& block, Counter& counter, std::uint32_t amount) {
  if (!machine.checked) {
    counter.value += amount;
    return;
  }
  if (block.clock.empty()) block.clock.resize(static_cast<std::size_t>(machine.options.blocks), 0);
  block.clock[static_cast<std::size_t>(block.index)] = block.epoch;
  counter.value += amount;
  VectorClock clock = block.clock;
  if (!counter.additions.empty()) merge(clock, counter.additions.back().clock);
  counter.additions.push_back({counter.value, std::move(clock)});
}

/// Learns what whoever made the counter reach the target had published by then, and no more: on a GPU the
/// wait may have ended there.
void acquire(Block& block, const Counter& counter, std::uint32_t target) {
  for (const Counter::Addition& addition : counter.additions) {
    if (addition.value < target) continue;
    merge(block.clock, addition.clock);
    return;
  }
}

void require_counter(const std::uint32_t* word, bool write, const Statement& statement) {
  require_global(word, sizeof(*word), write, statement.pc);
}

/// Once per block: the last thread's access stands for the block's.
void note_counter_access(const std::uint32_t* word, AccessKind kind, const Statement& statement) {
  if (!the_machine->checked) return;
  check_access(word, sizeof(*word), kind, true, stamp::with_lane(current_lane->stamp, stamp::kAtomic),
               statement.pc);
}

void end_wait(Machine& machine, Block& block) {
  acquire(block, counter_at(machine, block.request.word), block.request.number);
  block.waits_for_counter = false;
  pass_barrier(machine, block);
}

void wake_waiting_blocks(Machine& machine, const std::uint32_t* word) {
  for (Block& block : machine.blocks) {
    if (!block.waits_for_counter || block.request.word != word || *word < block.request.number) continue;
    end_wait(machine, block);
  }
}

// ------------------------------------------------------------------------------------- of the grid

/// All blocks know everything: clocks start again.
void pass_grid_barrier(Machine& machine, std::uint32_t* word, const Statement& statement) {
  constexpr std::uint32_t kFlip = 0x80000000u;
  for (const Block& block : machine.blocks) {
    if (block.request.word == word) continue;
    fail(statement, [&] { return Fault{"blocks disagree on the word of grid_barrier", {}}; });
  }
  if ((*word & ~kFlip) != 0) {
    fail(statement, [&] {
      return Fault{"the word of grid_barrier holds something else", ": it must be zero before its first use"};
    });
  }
  *word ^= kFlip;
  machine.grid_arrived = 0;
  ++machine.grid_epoch;
  if (machine.options.counts != nullptr) ++machine.options.counts->grid_barriers;
  if (machine.checked) require_countable(machine.grid_epoch, stamp::kGridEpoch, statement);
  for (auto& [unused, counter] : machine.counters) {
    for (Counter::Addition& addition : counter.additions) addition.clock.clear();
  }
  for (Block& block : machine.blocks) {
    block.clock.clear();
    block.epoch = 0;  // pass_barrier makes it 1
    pass_barrier(machine, block);
  }
}

// ------------------------------------------------------------------------------------- copies

void complete(const PendingCopy& copy, Stamp now, bool checked) {
  const auto size = static_cast<std::size_t>(copy.bytes);
  if (checked) {
    if (copy.valid) check_access(copy.from, size, AccessKind::read, true, now, copy.pc);
    check_access(copy.to, size, AccessKind::end_copy, true, now, copy.pc);
  }
  if (copy.valid) {
    std::memcpy(copy.to, copy.from, size);
  } else {
    std::memset(copy.to, 0, size);
  }
}

}  // namespace

void restamp(const Machine& machine, Block& block) {
  const int count = machine.kernel.threads / 32;
  for (int i = 0; i < count; ++i) restamp(machine, block.warps[i]);
}

void exit_thread(Lane& lane) {
  const Statement nowhere{nullptr, "", 0, nullptr};
  Warp& warp = *lane.warp;
  Block& block = *warp.block;
  if (!lane.copies.empty()) {
    fail({nullptr, "", 0, lane.copies.front().pc}, [&] {
      return Fault{"a thread exits before copy_async_wait", ": its copy_async has not been waited for"};
    });
  }
  if (block.arrived != 0) {
    fail(nowhere, [&] {
      return Fault{"barrier divergence: a thread exits while " + threads_text(block.arrived) + " in " +
                       to_string(block.at),
                   {}};
    });
  }
  if (warp.arrived != 0) {
    fail(nowhere, [&] {
      return Fault{
          "warp divergence: a lane exits while other lanes of its warp wait in " + to_string(warp.at), {}};
    });
  }
  if (the_machine->grid_arrived != 0) {
    fail(nowhere, [&] {
      return Fault{"barrier divergence: a thread exits while " + threads_text(the_machine->grid_arrived) +
                       " in " + to_string(the_machine->grid_at),
                   {}};
    });
  }
  lane.exited = true;
  warp.exited |= 1u << lane.lane;
  if (warp.exited == kAllLanes) count_accesses(warp);
  ++block.exited;
  wait_in(lane, nowhere);
  __builtin_unreachable();
}

namespace operations {

int thread_index() { return current_lane->thread; }
int block_index() { return current_lane->warp->block->index; }
int grid_blocks() { return the_machine->options.blocks; }
void* shared_memory() { return current_lane->warp->block->shared; }

void block_sync(int line, const char* file) {
  Lane& lane = *current_lane;
  if (!arrive_in_block(lane, {"block_sync", file, line, FT_RETURN_ADDRESS})) return;
  if (the_machine->options.counts != nullptr) ++the_machine->options.counts->block_barriers;
  pass_barrier(*the_machine, *lane.warp->block);
  yield(lane);
}

void warp_sync(int line, const char* file) {
  Lane& lane = *current_lane;
  const Statement statement{"warp_sync", file, line, FT_RETURN_ADDRESS};
  if (!arrive_in_warp(lane, nullptr, statement)) return;
  Warp& warp = *lane.warp;
  ++warp.epoch;
  if (the_machine->checked) require_countable(warp.epoch, stamp::kWarpEpoch, statement);
  restamp(*the_machine, warp);
  finish_warp(lane);
}

std::uint32_t shuffle_xor(std::uint32_t value, int mask, int line, const char* file) {
  return shuffle_lanes(value, (current_lane->lane ^ mask) & 31,
                       {"shuffle_xor", file, line, FT_RETURN_ADDRESS});
}

std::uint32_t shuffle_from(std::uint32_t value, int source, int line, const char* file) {
  return shuffle_lanes(value, source & 31, {"shuffle", file, line, FT_RETURN_ADDRESS});
}

void mma_f16(float* d, const std::uint32_t* a, std::uint32_t b0, std::uint32_t b1, int line,
             const char* file) {
  multiply_lanes({d, a, b0, b1}, HalfFormat::f16, {"mma_16x8x16", file, line, FT_RETURN_ADDRESS});
}

void mma_bf16(float* d, const std::uint32_t* a, std::uint32_t b0, std::uint32_t b1, int line,
              const char* file) {
  multiply_lanes({d, a, b0, b1}, HalfFormat::bf16, {"mma_16x8x16", file, line, FT_RETURN_ADDRESS});
}

void ldmatrix(std::uint32_t* r, const void* row, int line, const char* file) {
  load_matrices_of_lanes({r, row}, false, {"ldmatrix_x4", file, line, FT_RETURN_ADDRESS});
}

void ldmatrix_transposed(std::uint32_t* r, const void* row, int line, const char* file) {
  load_matrices_of_lanes({r, row}, true, {"ldmatrix_x4_transposed", file, line, FT_RETURN_ADDRESS});
}

void copy_async(void* shared, const void* global, int bytes, int valid, int, const char*) {
  const void* const pc = FT_RETURN_ADDRESS;
  Lane& lane = *current_lane;
  const auto size = static_cast<std::size_t>(bytes);
  require_shared(shared, size, pc);
  if (valid != 0) {
    require_global(global, size, false, pc);
  } else {
    require_global_address(global, pc);
  }
  if (the_machine->checked) {
    if (valid != 0) check_access(global, size, AccessKind::read, true, lane.stamp, pc);
    check_access(shared, size, AccessKind::begin_copy, true, lane.stamp, pc);
  }
  note_shared_access(SharedAccess::Kind::copy, shared, size, pc);
  std::memset(shared, kPoison, size);
  lane.copies.push_back({static_cast<unsigned char*>(shared), static_cast<const unsigned char*>(global),
                         bytes, valid != 0, lane.copy_group, pc});
}

void copy_async_commit() { ++current_lane->copy_group; }

void copy_async_wait(int groups, int, const char*) {
  Lane& lane = *current_lane;
  std::size_t done = 0;
  for (; done < lane.copies.size(); ++done) {
    const PendingCopy& copy = lane.copies[done];
    if (lane.copy_group - copy.group <= static_cast<unsigned>(groups)) break;
    complete(copy, lane.stamp, the_machine->checked);
  }
  lane.copies.erase(lane.copies.begin(), lane.copies.begin() + static_cast<std::ptrdiff_t>(done));
}

void grid_barrier(std::uint32_t* word, int line, const char* file) {
  const Statement statement{"grid_barrier", file, line, FT_RETURN_ADDRESS};
  Lane& lane = *current_lane;
  Machine& machine = *the_machine;
  if (!machine.options.cooperative) {
    fail(statement, [&] { return Fault{"grid_barrier in a launch that is not cooperative", {}}; });
  }
  require_counter(word, true, statement);
  if (machine.grid_arrived == 0) {
    machine.grid_at = statement;
  } else if (!same_statement(machine.grid_at, statement)) {
    fail(statement, [&] {
      return Fault{"barrier divergence: a thread is in " + statement.operation_text(),
                   " while " + threads_text(machine.grid_arrived) + " in " + to_string(machine.grid_at)};
    });
  }
  for (const Block& other : machine.blocks) {
    if (other.exited == 0) continue;
    fail(statement, [&] {
      return Fault{"barrier divergence: " + to_string(statement),
                   " is reached after threads of block " + std::to_string(other.index) + " have exited"};
    });
  }
  ++machine.grid_arrived;
  if (!arrive_in_block(lane, statement, {word, 0, nullptr})) return;
  note_counter_access(word, AccessKind::atomic, statement);
  if (machine.grid_arrived < static_cast<int>(machine.lanes.size())) {
    wait_in(lane, statement);
    return;
  }
  pass_grid_barrier(machine, word, statement);
  yield(lane);
}

void counter_add(std::uint32_t* word, std::uint32_t amount, int line, const char* file) {
  const Statement statement{"counter_add", file, line, FT_RETURN_ADDRESS};
  Lane& lane = *current_lane;
  Machine& machine = *the_machine;
  Block& block = *lane.warp->block;
  require_counter(word, true, statement);
  if (!arrive_in_block(lane, statement, {word, amount, nullptr})) return;
  pass_barrier(machine, block);
  note_counter_access(word, AccessKind::atomic, statement);
  release(machine, block, counter_at(machine, word), amount);
  *word += amount;
  wake_waiting_blocks(machine, word);
  yield(lane);
}

void counter_wait(const std::uint32_t* word, std::uint32_t target, int line, const char* file) {
  const Statement statement{"counter_wait", file, line, FT_RETURN_ADDRESS};
  Lane& lane = *current_lane;
  Machine& machine = *the_machine;
  Block& block = *lane.warp->block;
  if (!machine.options.cooperative) {
    fail(statement, [&] { return Fault{"counter_wait in a launch that is not cooperative", {}}; });
  }
  require_counter(word, false, statement);
  if (!arrive_in_block(lane, statement, {const_cast<std::uint32_t*>(word), target, nullptr})) return;
  note_counter_access(word, AccessKind::read, statement);
  if (*word < target) {
    block.waits_for_counter = true;
    wait_in(lane, statement);
    return;
  }
  end_wait(machine, block);
  yield(lane);
}

int counter_last(std::uint32_t* word, std::uint32_t total, std::uint32_t* flag, int line, const char* file) {
  const Statement statement{"counter_last", file, line, FT_RETURN_ADDRESS};
  Lane& lane = *current_lane;
  Machine& machine = *the_machine;
  Block& block = *lane.warp->block;
  require_counter(word, true, statement);
  require_shared(flag, sizeof(*flag), statement.pc);
  if (!arrive_in_block(lane, statement, {word, total, flag})) return block.answer ? 1 : 0;
  pass_barrier(machine, block);
  note_counter_access(word, AccessKind::atomic, statement);
  Counter& counter = counter_at(machine, word);
  if (counter.value >= total) {
    fail(statement, [&] {
      return Fault{"counter_last is called more often than its total",
                   ": the counter is " + std::to_string(counter.value) + " of " + std::to_string(total) +
                       " already (zero before the launch?)"};
    });
  }
  release(machine, block, counter, 1);
  if (machine.checked) merge(block.clock, counter.additions.back().clock);
  block.answer = counter.value == total;
  if (block.answer) counter = {};
  *word = counter.value;
  if (machine.checked) check_access(flag, sizeof(*flag), AccessKind::write, true, lane.stamp, statement.pc);
  *flag = block.answer ? 1 : 0;
  pass_barrier(machine, block);  // the flag may be used again
  yield(lane);
  return block.answer ? 1 : 0;
}

}  // namespace operations
}  // namespace fusetune::backend::simt
