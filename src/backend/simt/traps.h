// Faults of kernel code that the processor reports, and the launch's timer. Internal to the emulator.
#pragma once

#include <csignal>
#include <ctime>
#include <memory>

namespace fusetune::backend::simt {

class StackPool;

/// While it lives, a signal that a kernel causes ends the launch with a finding: an invalid address, a full
/// stack, a trap of the undefined-behaviour checks, the end of the time. Signals that something else causes
/// take their course.
class Traps {
 public:
  /// Throws base::EnvironmentError when there is no timer to be had.
  Traps(const StackPool& stacks, double timeout_seconds);
  ~Traps();
  Traps(const Traps&) = delete;
  Traps& operator=(const Traps&) = delete;

 private:
  static constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGALRM};

  struct sigaction previous_[std::size(kSignals)] = {};
  stack_t previous_stack_ = {};
  std::unique_ptr<unsigned char[]> stack_;
  timer_t timer_ = {};
};

}  // namespace fusetune::backend::simt
