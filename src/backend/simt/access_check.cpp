#include "backend/simt/access_check.h"

#include <algorithm>
#include <string>

namespace fusetune::backend::simt {
namespace {

using stamp::Distance;

const unsigned char* as_bytes(const void* address) { return static_cast<const unsigned char*>(address); }

Statement at(const void* pc) { return {nullptr, "", 0, pc}; }

const char* verb(AccessKind kind) { return kind == AccessKind::read ? "read" : "write"; }

std::string describe_address(const unsigned char* address) {
  const Block& block = *current_lane->warp->block;
  if (const Buffer* buffer = the_machine->memory.find(address)) {
    return "global '" + buffer->name + "' byte " + std::to_string(address - buffer->begin) + " of " +
           std::to_string(buffer->bytes());
  }
  return "shared byte " + std::to_string(address - block.shared) + " of " +
         std::to_string(the_machine->shared_bytes);
}

std::string describe_threads(Stamp s) {
  const int block = static_cast<int>(stamp::kBlock.get(s));
  const std::uint32_t lane = stamp::kLane.get(s), warp = stamp::kWarp.get(s);
  if (lane == stamp::kAtomic) return "block " + std::to_string(block) + " (a counter operation)";
  if (lane == stamp::kWholeWarp) {
    return "block " + std::to_string(block) + " threads " + std::to_string(warp * 32) + " to " +
           std::to_string(warp * 32 + 31) + " (ldmatrix)";
  }
  return thread_name(block, static_cast<int>(warp * 32 + lane));
}

/// Whether counters order an access of another block before what the running block does now.
bool counters_order(Stamp earlier) {
  const VectorClock& clock = current_lane->warp->block->clock;
  if (clock.empty()) return false;
  return stamp::kBlockEpoch.get(earlier) < clock[stamp::kBlock.get(earlier)];
}

Distance unordered_distance(Stamp earlier, Stamp now) {
  const Distance distance = stamp::distance(earlier, now);
  if (distance == Distance::blocks && counters_order(earlier)) return Distance::ordered;
  return distance;
}

/// Neither is before the other. Operations on counters may be, without harm.
bool concurrent(Stamp earlier, Stamp now) {
  return earlier > stamp::kHost && unordered_distance(earlier, now) != Distance::ordered;
}

bool in_race(Stamp earlier, Stamp now) {
  return concurrent(earlier, now) && !(stamp::is_atomic(earlier) && stamp::is_atomic(now));
}

[[noreturn]] void fail_race(const unsigned char* address, AccessKind kind, Stamp earlier,
                            const char* earlier_verb, const void* pc) {
  fail(at(pc), [&] {
    return Fault{
        std::string("race: ") + verb(kind) + " of " + describe_address(address),
        std::string(", unsynchronised with the ") + earlier_verb + " by " + describe_threads(earlier)};
  });
}

/// Three readers of three blocks: the third goes to the side table, of each block the latest.
void remember_reader(ShadowCell& cell, Stamp now) {
  std::vector<Stamp>& readers = the_machine->more_readers[&cell];
  if ((cell.distant_read & stamp::kFlag) == 0) readers.clear();  // of before the last write
  cell.distant_read |= stamp::kFlag;
  const auto same_block = [now](Stamp s) {
    return stamp::kBlock.get(s) == stamp::kBlock.get(now) &&
           stamp::kGridEpoch.get(s) == stamp::kGridEpoch.get(now);
  };
  const auto known = std::find_if(readers.begin(), readers.end(), same_block);
  if (known != readers.end()) {
    *known = now;
  } else {
    readers.push_back(now);
  }
}

void note_read(ShadowCell& cell, Stamp now) {
  if (cell.read == now) return;
  if (!concurrent(cell.read, now)) {
    cell.read = now;
    return;
  }
  const Stamp other = cell.distant_read & ~stamp::kFlag;
  if (!concurrent(other, now)) {
    cell.distant_read = now | (cell.distant_read & stamp::kFlag);
    return;
  }
  const Distance from_read = stamp::distance(cell.read, now);
  const Distance between = stamp::distance(cell.read, other);
  if (from_read == Distance::blocks && between == Distance::blocks) {
    if (!the_machine->counters.empty()) remember_reader(cell, now);
  } else if (from_read >= between) {
    cell.distant_read = now | (cell.distant_read & stamp::kFlag);
  }
}

void read_cell(ShadowCell& cell, const unsigned char* address, Stamp now, const void* pc) {
  if (cell.write == 0) {
    fail(at(pc), [&] {
      return Fault{"uninitialised read of " + describe_address(address), ", which nobody has written yet"};
    });
  }
  if ((cell.write & stamp::kFlag) != 0) {
    fail(at(pc), [&] {
      return Fault{
          "read of " + describe_address(address) + " before copy_async_wait",
          ": the copy_async by " + describe_threads(cell.write & ~stamp::kFlag) + " may not have arrived"};
    });
  }
  if (in_race(cell.write, now)) fail_race(address, AccessKind::read, cell.write, "write", pc);
  note_read(cell, now);
}

void check_readers(const ShadowCell& cell, const unsigned char* address, Stamp now, const void* pc) {
  if (in_race(cell.read, now)) fail_race(address, AccessKind::write, cell.read, "read", pc);
  const Stamp other = cell.distant_read & ~stamp::kFlag;
  if (in_race(other, now)) fail_race(address, AccessKind::write, other, "read", pc);
  if ((cell.distant_read & stamp::kFlag) == 0) return;
  for (const Stamp reader : the_machine->more_readers[&cell]) {
    if (in_race(reader, now)) fail_race(address, AccessKind::write, reader, "read", pc);
  }
}

void write_cell(ShadowCell& cell, const unsigned char* address, AccessKind kind, Stamp now, const void* pc) {
  const bool pending = (cell.write & stamp::kFlag) != 0;
  const Stamp earlier = cell.write & ~stamp::kFlag;
  if (pending && kind != AccessKind::end_copy) {
    fail(at(pc), [&] {
      return Fault{"write of " + describe_address(address) + " before copy_async_wait",
                   ": the copy_async by " + describe_threads(earlier) + " may arrive later"};
    });
  }
  if (!pending && in_race(earlier, now)) fail_race(address, kind, earlier, "write", pc);
  check_readers(cell, address, now, pc);
  cell = {kind == AccessKind::begin_copy ? now | stamp::kFlag : now, 0, 0};
}

/// `first` belongs to `address`, rounded down to a cell.
void touch_cells(ShadowCell* first, const unsigned char* address, std::size_t bytes, AccessKind kind,
                 Stamp now, const void* pc) {
  const std::size_t offset = reinterpret_cast<std::uintptr_t>(address) % kShadowGranule;
  const std::size_t count = (offset + bytes + kShadowGranule - 1) / kShadowGranule;
  for (std::size_t i = 0; i < count; ++i) {
    const unsigned char* const where = i == 0 ? address : address - offset + i * kShadowGranule;
    if (kind == AccessKind::read) {
      read_cell(first[i], where, now, pc);
    } else {
      write_cell(first[i], where, kind, now, pc);
    }
  }
}

/// What lies next to an address that is in nothing.
std::string describe_neighbour(const unsigned char* begin, std::size_t bytes) {
  const Machine& machine = *the_machine;
  const unsigned char* const shared = current_lane->warp->block->shared;
  // Shared memory ends at a guard page; what lies a little past it is meant for it.
  constexpr std::ptrdiff_t kNear = 65536;
  const std::ptrdiff_t past_shared = begin - (shared + machine.shared_bytes);
  if (begin + kNear > shared && past_shared < kNear) {
    if (past_shared + static_cast<std::ptrdiff_t>(bytes) > 0) {
      return ": " + std::to_string(past_shared) + " bytes past the end of shared memory";
    }
    return ": " + std::to_string(shared - begin) + " bytes before shared memory";
  }
  const Buffer* const buffer = machine.memory.in_arena(begin) ? machine.memory.nearest(begin) : nullptr;
  if (buffer == nullptr) return ": no buffer is near";
  if (begin + bytes > buffer->end) {
    return ": " + std::to_string(begin - buffer->end) + " bytes past the end of global '" + buffer->name +
           "'";
  }
  return ": " + std::to_string(buffer->begin - begin) + " bytes before the start of global '" + buffer->name +
         "'";
}

void require_alignment(const void* address, std::size_t bytes, const void* pc) {
  if ((reinterpret_cast<std::uintptr_t>(address) & (bytes - 1)) == 0) return;
  fail(at(pc), [&] {
    return Fault{
        "misaligned access of " + std::to_string(bytes) + " bytes to " + describe_address(as_bytes(address)),
        {}};
  });
}

void require_writable(const Buffer& buffer, const void* pc) {
  if (buffer.access == Access::read_only)
    fail(at(pc), [&] { return Fault{"write to the read-only buffer '" + buffer.name + "'", {}}; });
}

bool overlaps(const void* object, std::size_t size, const unsigned char* address) {
  return static_cast<std::size_t>(address - as_bytes(object)) < size;
}

/// Neither a buffer nor shared memory: the arguments and constant tables may be read.
void check_elsewhere(const unsigned char* address, std::size_t bytes, AccessKind kind, const void* pc) {
  const bool known = overlaps(&the_machine->args, sizeof(the_machine->args), address) ||
                     the_machine->kernel.library->contains(address);
  if (!known) fail_out_of_bounds(address, bytes, kind != AccessKind::read, pc);
  if (kind != AccessKind::read)
    fail(at(pc), [&] { return Fault{"write to the kernel's arguments or constants", {}}; });
}

}  // namespace

void check_access(const void* address, std::size_t bytes, AccessKind kind, bool aligned, Stamp now,
                  const void* pc) {
  const Lane* const lane = current_lane;
  if (lane == nullptr || bytes == 0) return;
  const unsigned char* const begin = as_bytes(address);
  if (overlaps(lane->stack, StackPool::kStackBytes, begin)) return;
  aligned = aligned && bytes > 1 && bytes <= 16;

  const Machine& machine = *the_machine;
  const Block& block = *lane->warp->block;
  const std::size_t offset = static_cast<std::size_t>(begin - block.shared);
  if (offset < machine.shared_bytes) {
    if (bytes > machine.shared_bytes - offset)
      fail_out_of_bounds(address, bytes, kind != AccessKind::read, pc);
    if (aligned) require_alignment(address, bytes, pc);
    touch_cells(block.shared_shadow + offset / kShadowGranule, begin, bytes, kind, now, pc);
    return;
  }
  const Buffer* const buffer = machine.memory.find(address);
  if (buffer == nullptr) {
    check_elsewhere(begin, bytes, kind, pc);
    return;
  }
  if (begin < buffer->begin || begin + bytes > buffer->end) {
    fail_out_of_bounds(address, bytes, kind != AccessKind::read, pc);
  }
  if (aligned) require_alignment(address, bytes, pc);
  if (kind != AccessKind::read) require_writable(*buffer, pc);
  if (buffer->access == Access::read_only) return;
  const std::size_t cell = static_cast<std::size_t>(begin - buffer->begin) / kShadowGranule;
  touch_cells(buffer->shadow.cells() + cell, begin, bytes, kind, now, pc);
}

void require_shared(const void* address, std::size_t bytes, const void* pc) {
  const std::size_t size = the_machine->shared_bytes;
  const auto offset = static_cast<std::size_t>(as_bytes(address) - current_lane->warp->block->shared);
  if (offset > size || bytes > size - offset) {
    fail(at(pc), [&] {
      return Fault{"out of bounds access of " + std::to_string(bytes) + " bytes of shared memory",
                   ": its address is not among the block's " + std::to_string(size) + " bytes"};
    });
  }
  require_alignment(address, bytes, pc);
}

void require_global(const void* address, std::size_t bytes, bool write, const void* pc) {
  const Buffer* const buffer = the_machine->memory.find(address);
  if (buffer == nullptr || as_bytes(address) < buffer->begin || as_bytes(address) + bytes > buffer->end) {
    fail_out_of_bounds(address, bytes, write, pc);
  }
  require_alignment(address, bytes, pc);
  if (write) require_writable(*buffer, pc);
}

void require_global_address(const void* address, const void* pc) {
  const Buffer* const buffer = the_machine->memory.find(address);
  if (buffer == nullptr || as_bytes(address) < buffer->begin || as_bytes(address) > buffer->end) {
    fail_out_of_bounds(address, 0, false, pc);
  }
}

void fail_out_of_bounds(const void* address, std::size_t bytes, bool write, const void* pc) {
  fail(at(pc), [&] {
    return Fault{std::string("out of bounds ") + (write ? "write" : "read") + " of " + std::to_string(bytes) +
                     " bytes",
                 describe_neighbour(as_bytes(address), bytes)};
  });
}

}  // namespace fusetune::backend::simt
