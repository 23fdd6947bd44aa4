// Whether a thread may touch an address now. Internal to the emulator.
#pragma once

#include <cstddef>

#include "backend/simt/machine.h"

namespace fusetune::backend::simt {

enum class AccessKind {
  read,
  write,
  begin_copy,  // destination of a copy_async: nobody may touch it until
  end_copy,    // the thread has waited
  atomic,      // an operation on a counter: not in conflict with others of its kind
};

/// Checks everything about an access of the running thread: bounds, alignment (`aligned` accesses of up to 16
/// bytes), permission, initialisation, order. Ends the launch where it may not be. Checked launches only.
void check_access(const void* address, std::size_t bytes, AccessKind kind, bool aligned, Stamp now,
                  const void* pc);

/// Bounds, alignment and permission only: for what the platform does itself, in fast launches too.
void require_shared(const void* address, std::size_t bytes, const void* pc);
void require_global(const void* address, std::size_t bytes, bool write, const void* pc);
/// As require_global, for an address of which nothing is read.
void require_global_address(const void* address, const void* pc);

/// Ends the launch with "out of bounds" and what lies nearest. Also for addresses that faulted.
[[noreturn]] void fail_out_of_bounds(const void* address, std::size_t bytes, bool write, const void* pc);

}  // namespace fusetune::backend::simt
