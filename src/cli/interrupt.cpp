#include "cli/interrupt.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <thread>

namespace fusetune::cli {
namespace {

/// When the first signal came, in nanoseconds of a clock that starts above 0; 0: none came.
std::atomic<std::int64_t> caught_at = 0;
static_assert(std::atomic<std::int64_t>::is_always_lock_free, "written by a signal handler");

/// Signals closer together are one request: timeout(1) and shells signal a process and then its group.
constexpr std::int64_t kSameRequest = 1'000'000'000;

std::int64_t nanoseconds() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

void remember(int signal) {
  const std::int64_t now = nanoseconds();
  std::int64_t first = 0;
  if (caught_at.compare_exchange_strong(first, now) || now - first < kSameRequest) return;
  std::signal(signal, SIG_DFL);
  std::raise(signal);  // delivered when this handler returns
}

/// A closed terminal counts; under nohup that is ignored and stays so. SIGINT is not left ignored, as it is
/// for what a script starts behind an `&`: who sends it there means it.
void at_interrupts(void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  struct sigaction before = {};
  sigaction(SIGHUP, nullptr, &before);
  if (before.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);
}

int pipe_to_end[2];  // written by a signal handler, read by the thread that ends the process

}  // namespace

void catch_interrupts() { at_interrupts(remember); }

void end_at_interrupts(void (*end)()) {
  if (::pipe2(pipe_to_end, O_CLOEXEC) != 0) return;  // the signals then end the process as they always do
  std::thread([end] {
    char byte = 0;
    while (::read(pipe_to_end[0], &byte, 1) != 1) {
    }
    at_interrupts(SIG_DFL);  // should the end hang, another one ends it
    end();
  }).detach();
  at_interrupts([](int) { [[maybe_unused]] const auto written = ::write(pipe_to_end[1], "", 1); });
}

bool interrupted() { return caught_at != 0; }

void stop_if_interrupted() {
  if (interrupted()) throw Interrupted{};
}

}  // namespace fusetune::cli
