// Which thread runs next. Internal to the emulator.
//
// A thread that waits hands over to a ready lane of its own warp, else to the scheduler, which takes the next
// warp of the queue. Only what leaves many warps ready (a barrier) goes through the queue.
#pragma once

#include "backend/simt/machine.h"

namespace fusetune::backend::simt {

std::uint32_t random_number(Machine& machine);

/// Puts a warp that has ready lanes into the queue, once.
void enqueue(Machine& machine, Warp& warp);

/// Suspends the running thread until somebody makes its lane ready.
void wait_in(Lane& lane, const Statement& statement);
/// Suspends the running thread, which stays ready, in favour of the queue.
void yield(Lane& lane);

/// Makes all threads of a block ready.
void wake(Machine& machine, Block& block);

/// Runs what is ready until nothing is, or the launch has failed or run out of time.
void run_until_idle(Machine& machine);

}  // namespace fusetune::backend::simt
