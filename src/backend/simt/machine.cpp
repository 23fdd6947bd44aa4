#include "backend/simt/machine.h"

#include <utility>

namespace fusetune::backend::simt {

Machine* the_machine = nullptr;
Lane* current_lane = nullptr;

std::string to_string(const Statement& statement) {
  return statement.operation_text() + " at " + statement.file + ":" + std::to_string(statement.line);
}

std::string thread_name(int block, int thread) {
  return "block " + std::to_string(block) + " thread " + std::to_string(thread);
}

void fail_with(const Statement& place, Fault (*write)(const void*), const void* context) {
  Machine& machine = *the_machine;
  Lane& lane = *current_lane;
  machine.failure = {{}, place, lane.warp->block->index, lane.thread};
  machine.write_fault = write;
  machine.write_context = context;
  switch_fiber(lane.fiber, machine.scheduler);
  __builtin_unreachable();
}

Machine::Machine(const Kernel& the_kernel, const ft_gpu_args& the_args, DeviceMemory& the_memory,
                 const LaunchOptions& the_options)
    : kernel(the_kernel),
      args(the_args),
      memory(the_memory),
      options(the_options),
      checked(the_kernel.library->mode() == Mode::checked),
      shared_bytes(static_cast<std::size_t>(the_options.shared_bytes)),
      random_state(the_options.seed * 2654435761u | 1u) {
  memory.begin_launch(checked);
  the_machine = this;
}

Machine::~Machine() {
  the_machine = nullptr;
  current_lane = nullptr;
  memory.end_launch();
}

}  // namespace fusetune::backend::simt
