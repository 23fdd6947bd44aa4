// Counts a launch's accesses to shared memory by warps. Internal to the emulator.
//
// Lanes run one after the other. What a warp does at once is put together afterwards, where all its lanes
// wait: each lane's n-th access by one instruction since the last such place belongs with the others' n-th.
#pragma once

#include <cstddef>

#include "backend/simt/machine.h"

namespace fusetune::backend::simt {

/// Notes an access of the running thread, where the launch is counted and the address is in shared memory.
void note_shared_access(SharedAccess::Kind kind, const void* address, std::size_t bytes, const void* pc);
/// Adds what the warp's lanes have noted to the launch's counts. All of them wait or have ended.
void count_accesses(Warp& warp);

}  // namespace fusetune::backend::simt
