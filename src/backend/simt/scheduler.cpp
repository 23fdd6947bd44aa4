#include "backend/simt/scheduler.h"

#include <bit>

namespace fusetune::backend::simt {
namespace {

constexpr std::size_t kCompactQueueAt = 4096;

Warp* take_next(Machine& machine) {
  std::vector<Warp*>& queue = machine.queue;
  if (machine.queue_head == queue.size()) return nullptr;
  Warp* warp = nullptr;
  if (machine.options.order == ThreadOrder::forward) {
    warp = queue[machine.queue_head++];
    if (machine.queue_head >= kCompactQueueAt) {
      queue.erase(queue.begin(), queue.begin() + static_cast<std::ptrdiff_t>(machine.queue_head));
      machine.queue_head = 0;
    }
  } else {
    const bool last = machine.options.order == ThreadOrder::reverse;
    const std::size_t index = last ? queue.size() - 1 : random_number(machine) % queue.size();
    warp = queue[index];
    queue[index] = queue.back();
    queue.pop_back();
  }
  warp->queued = false;
  return warp;
}

Lane& choose_ready(Machine& machine, const Warp& warp) {
  switch (machine.options.order) {
    case ThreadOrder::forward:
      return warp.lanes[std::countr_zero(warp.ready)];
    case ThreadOrder::reverse:
      return warp.lanes[31 - std::countl_zero(warp.ready)];
    case ThreadOrder::random:
      break;
  }
  const int turn = static_cast<int>(random_number(machine) & 31);
  return warp.lanes[(std::countr_zero(std::rotr(warp.ready, turn)) + turn) & 31];
}

void enter(Fiber& from, Lane& lane) {
  current_lane = &lane;
  switch_fiber(from, lane.fiber);
}

void enter_scheduler(Lane& lane) {
  current_lane = nullptr;
  switch_fiber(lane.fiber, the_machine->scheduler);
}

}  // namespace

std::uint32_t random_number(Machine& machine) {  // xorshift32
  std::uint32_t& x = machine.random_state;
  x ^= x << 13;
  x ^= x >> 17;
  x ^= x << 5;
  return x;
}

void enqueue(Machine& machine, Warp& warp) {
  if (warp.queued) return;
  warp.queued = true;
  machine.queue.push_back(&warp);
}

void wait_in(Lane& lane, const Statement& statement) {
  Warp& warp = *lane.warp;
  lane.waits_in = statement;
  warp.ready &= ~(1u << lane.lane);
  if (warp.ready != 0) {
    enter(lane.fiber, choose_ready(*the_machine, warp));
  } else {
    enter_scheduler(lane);
  }
}

void yield(Lane& lane) {
  enqueue(*the_machine, *lane.warp);
  enter_scheduler(lane);
}

void wake(Machine& machine, Block& block) {
  const int count = machine.kernel.threads / 32;
  for (int i = 0; i < count; ++i) {
    block.warps[i].ready = kAllLanes;
    enqueue(machine, block.warps[i]);
  }
}

void run_until_idle(Machine& machine) {
  while (!machine.failed && !machine.timed_out) {
    const Warp* const warp = take_next(machine);
    if (warp == nullptr) return;
    if (warp->ready == 0) continue;
    enter(machine.scheduler, choose_ready(machine, *warp));
    if (machine.write_fault != nullptr) {
      machine.failure.fault = machine.write_fault(machine.write_context);
      machine.failed = true;
    }
    current_lane = nullptr;
  }
}

}  // namespace fusetune::backend::simt
