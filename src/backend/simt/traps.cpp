#include "backend/simt/traps.h"

#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdint>
#include <string>
#include <system_error>

#include "backend/simt/access_check.h"
#include "backend/simt/machine.h"
#include "base/error.h"
#include "base/number.h"

namespace fusetune::backend::simt {
namespace {

constexpr std::size_t kSignalStackBytes = 64 * 1024;
// The timer first rings at the end of the time and then again and again: the thread may be in the middle of
// the emulator, which it must leave first.
constexpr long kRepeatNanoseconds = 5'000'000;

/// What the handler leaves for end_thread.
struct Trap {
  int signal = 0;
  const void* address = nullptr;
  const void* pc = nullptr;
};
Trap trap;
const StackPool* stack_pool = nullptr;

#if defined(__x86_64__)
std::uintptr_t program_counter(const ucontext_t& context) {
  return static_cast<std::uintptr_t>(context.uc_mcontext.gregs[REG_RIP]);
}
std::uintptr_t stack_pointer(const ucontext_t& context) {
  return static_cast<std::uintptr_t>(context.uc_mcontext.gregs[REG_RSP]);
}
/// Goes on in `function` as if it had just been called.
void continue_in(ucontext_t& context, void (*function)(), std::uintptr_t stack) {
  context.uc_mcontext.gregs[REG_RIP] = static_cast<greg_t>(reinterpret_cast<std::uintptr_t>(function));
  context.uc_mcontext.gregs[REG_RSP] = static_cast<greg_t>((stack & ~std::uintptr_t{15}) - 8);
}
#elif defined(__aarch64__)
std::uintptr_t program_counter(const ucontext_t& context) { return context.uc_mcontext.pc; }
std::uintptr_t stack_pointer(const ucontext_t& context) { return context.uc_mcontext.sp; }
void continue_in(ucontext_t& context, void (*function)(), std::uintptr_t stack) {
  context.uc_mcontext.pc = reinterpret_cast<std::uintptr_t>(function);
  context.uc_mcontext.sp = stack & ~std::uintptr_t{15};
}
#else
#error "the emulator knows the signal contexts of x86-64 and AArch64 only"
#endif

/// Runs in the place of the thread that trapped.
__attribute__((no_sanitize("address"))) void end_thread() {
  // A fault's address is that of the instruction, a call's the one after it: see source_location().
  const void* const pc = static_cast<const unsigned char*>(trap.pc) + 1;
  const Statement place{nullptr, "", 0, pc};
  switch (trap.signal) {
    case SIGALRM:
      fail(place, [&] {
        return Fault{"timeout: still running after " +
                         base::format_shortest(the_machine->options.timeout_seconds) + " s, an endless loop?",
                     {}};
      });
    case SIGFPE:
      fail(place, [&] { return Fault{"integer division by zero", {}}; });
    case SIGILL:
    case SIGTRAP:
      fail(place, [&] {
        return Fault{"undefined behaviour (array index, shift, division by zero or signed overflow)", {}};
      });
    default:
      break;
  }
  if (stack_pool->contains(trap.address)) {
    fail(place, [&] {
      return Fault{"stack overflow: more than " + std::to_string(StackPool::kStackBytes >> 10) +
                       " KiB of local variables",
                   {}};
    });
  }
  if (const Buffer* buffer = the_machine->memory.find(trap.address);
      buffer != nullptr && buffer->access == Access::read_only) {
    fail(place, [&] { return Fault{"write to the read-only buffer '" + buffer->name + "'", {}}; });
  }
  fail_out_of_bounds(trap.address, 1, false, pc);
}

/// Whether the running thread, rather than the emulator or something else, is to blame.
bool caused_by_kernel(int signal, const void* address, const void* pc) {
  if (current_lane == nullptr || the_machine == nullptr) return false;
  const KernelLibrary& library = *the_machine->kernel.library;
  if (signal == SIGALRM && library.in_hooks(pc)) return false;  // the next ring finds it at a line
  if (library.contains(pc)) return true;
  // A copy that the C library or the emulator makes for the kernel.
  const bool invalid_address = signal == SIGSEGV || signal == SIGBUS;
  return invalid_address && (stack_pool->contains(address) || the_machine->memory.in_arena(address));
}

void handle(int signal, siginfo_t* info, void* raw_context) {
  ucontext_t& context = *static_cast<ucontext_t*>(raw_context);
  // The system gives registers as integers.
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  const auto* const pc = reinterpret_cast<const void*>(program_counter(context));
  if (signal == SIGALRM && the_machine != nullptr) the_machine->timed_out = true;  // for the scheduler
  if (!caused_by_kernel(signal, info->si_addr, pc)) {
    if (signal != SIGALRM) std::signal(signal, SIG_DFL);  // happens again, and ends the program
    return;
  }
  trap = {signal, info->si_addr, pc};
  const Lane& lane = *current_lane;
  const bool stack_is_full = stack_pool->contains(info->si_addr) && signal != SIGALRM;
  const std::uintptr_t top = reinterpret_cast<std::uintptr_t>(lane.stack) + StackPool::kStackBytes;
  constexpr std::uintptr_t kRedZone = 256;  // what the interrupted function may use below its stack pointer
  continue_in(context, &end_thread, stack_is_full ? top - kRedZone : stack_pointer(context) - kRedZone);
}

timespec to_timespec(double seconds) {
  timespec time{};
  time.tv_sec = static_cast<time_t>(seconds);
  time.tv_nsec = static_cast<long>((seconds - std::floor(seconds)) * 1e9);
  if (time.tv_sec == 0 && time.tv_nsec == 0) time.tv_nsec = 1;
  return time;
}

timer_t start_timer(double seconds) {
  sigevent event{};
  event.sigev_notify = SIGEV_THREAD_ID;  // this thread, whichever others there are
  event.sigev_signo = SIGALRM;
#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif
  event.sigev_notify_thread_id = static_cast<pid_t>(syscall(SYS_gettid));
  timer_t timer{};
  itimerspec times{};
  times.it_value = to_timespec(seconds);
  times.it_interval.tv_nsec = kRepeatNanoseconds;
  if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 || timer_settime(timer, 0, &times, nullptr) != 0) {
    throw base::EnvironmentError("cannot run a kernel in the emulator: no timer: " +
                                 std::generic_category().message(errno));
  }
  return timer;
}

}  // namespace

Traps::Traps(const StackPool& stacks, double timeout_seconds)
    : stack_(std::make_unique<unsigned char[]>(kSignalStackBytes)) {
  timer_ = start_timer(timeout_seconds);
  stack_pool = &stacks;
  stack_t own{};
  own.ss_sp = stack_.get();
  own.ss_size = kSignalStackBytes;
  sigaltstack(&own, &previous_stack_);
  struct sigaction action {};
  action.sa_sigaction = &handle;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  for (std::size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &action, &previous_[i]);
}

Traps::~Traps() {
  timer_delete(timer_);
  for (std::size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &previous_[i], nullptr);
  sigaltstack(&previous_stack_, nullptr);
  stack_pool = nullptr;
}

}  // namespace fusetune::backend::simt
