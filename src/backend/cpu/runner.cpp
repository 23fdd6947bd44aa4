#include "backend/cpu/runner.h"

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "backend/cpu/float_mode.h"
#include "base/error.h"

namespace fusetune::backend::cpu {
namespace {

using Clock = std::chrono::steady_clock;

/// How long an idle worker keeps its CPU before it sleeps. Longer than the pause between two samples of a
/// measurement, shorter than anybody notices.
constexpr auto kIdleSpin = std::chrono::milliseconds(1);

/// CPUs this thread may use, ascending.
std::vector<int> allowed_cpus() {
  cpu_set_t set;
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cpus;  // more than 1024 CPUs: not pinned
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

/// Pinning is a matter of timing, not of correctness: a CPU that went away meanwhile is no error.
void pin_this_thread(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof set, &set);
}

/// Pins the calling thread for the object's life and lets it go where it could before.
class PinnedHere {
 public:
  explicit PinnedHere(int cpu) {
    if (cpu < 0) return;
    restore_ = sched_getaffinity(0, sizeof before_, &before_) == 0;
    if (restore_ && CPU_COUNT(&before_) == 1 && CPU_ISSET(cpu, &before_)) restore_ = false;  // already there
    if (restore_) pin_this_thread(cpu);
  }
  ~PinnedHere() {
    if (restore_) sched_setaffinity(0, sizeof before_, &before_);
  }
  PinnedHere(const PinnedHere&) = delete;
  PinnedHere& operator=(const PinnedHere&) = delete;

 private:
  cpu_set_t before_;
  bool restore_ = false;
};

/// Waits actively; with `share`, other threads need this CPU to make progress and get it.
class Spin {
 public:
  explicit Spin(bool share) : share_(share) {}
  void once() {
    ft_pause();
    if (share_ && ++turns_ % 64 == 0) sched_yield();
  }

 private:
  bool share_;
  unsigned turns_ = 0;
};

/// ft_barrier_wait for threads that may share CPUs. On the same ft_barrier, so that either may be used.
void meet(ft_barrier& barrier, int threads, bool share) {
  if (!share) return ft_barrier_wait(&barrier, threads);
  if (threads == 1) return;
  const int generation = __atomic_load_n(&barrier.generation, __ATOMIC_RELAXED);
  if (__atomic_add_fetch(&barrier.arrived, 1, __ATOMIC_ACQ_REL) == threads) {
    __atomic_store_n(&barrier.arrived, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&barrier.generation, generation + 1, __ATOMIC_RELEASE);
    return;
  }
  Spin spin(share);
  while (__atomic_load_n(&barrier.generation, __ATOMIC_ACQUIRE) == generation) spin.once();
}

}  // namespace

// One job at a time. Thread 0 posts it by raising `posted_`; workers, spinning or asleep on it, all come to
// `barrier_`, thread 0 last reads the clock and joins, and so the job starts with every thread awake.
struct Runner::Impl {
  explicit Impl(int thread_count) : threads(thread_count), cpus(allowed_cpus()) {
    // With fewer CPUs than threads the scheduler shares them out better than a fixed assignment would.
    share = threads > static_cast<int>(cpus.size());
    workers.reserve(static_cast<std::size_t>(threads - 1));
    try {
      for (int thread = 1; thread < threads; ++thread) workers.emplace_back([this, thread] { work(thread); });
    } catch (const std::system_error& error) {
      end_workers();
      throw base::EnvironmentError("cannot start " + std::to_string(threads) +
                                   " threads to run kernels: " + error.what() +
                                   "; use fewer with --threads, or raise the limit (ulimit -u)");
    }
  }
  ~Impl() { end_workers(); }

  double run(std::span<const Launch> job, Clock::time_point* times = nullptr);
  void work(int thread);
  std::uint32_t await_job(std::uint32_t seen);
  void execute(std::span<const Launch> job, int thread, Clock::time_point* ends = nullptr);
  void post(std::span<const Launch> job);
  void end_workers();
  int cpu_of(int thread) const { return share ? -1 : cpus[static_cast<std::size_t>(thread)]; }

  const int threads;
  const std::vector<int> cpus;
  bool share = false;  // more threads than CPUs: waiting loops give way
  std::vector<std::thread> workers;

  // Written by thread 0 before it raises posted_, read by workers after they saw it.
  std::span<const Launch> launches;
  bool ending = false;

  alignas(64) std::atomic<std::uint32_t> posted{0};
  ft_barrier barrier = {};  // for start, end, between launches and within kernels
};

void Runner::Impl::post(std::span<const Launch> job) {
  launches = job;
  posted.fetch_add(1, std::memory_order_release);
  posted.notify_all();
}

void Runner::Impl::end_workers() {
  ending = true;
  post({});
  for (std::thread& worker : workers) worker.join();
}

/// Returns when a job newer than `seen` is posted: actively waiting at first, then asleep.
std::uint32_t Runner::Impl::await_job(std::uint32_t seen) {
  const auto give_up = Clock::now() + kIdleSpin;
  Spin spin(share);
  while (true) {
    for (int i = 0; i < 256; ++i) {
      const std::uint32_t now = posted.load(std::memory_order_acquire);
      if (now != seen) return now;
      spin.once();
    }
    if (Clock::now() > give_up) posted.wait(seen, std::memory_order_acquire);
  }
}

void Runner::Impl::work(int thread) {
  if (!share) pin_this_thread(cpu_of(thread));
  const FlushDenormals flush;
  std::uint32_t seen = 0;
  while (true) {
    seen = await_job(seen);
    if (ending) return;
    const std::span<const Launch> job = launches;
    meet(barrier, threads, share);
    execute(job, thread);
  }
}

void Runner::Impl::execute(std::span<const Launch> job, int thread, Clock::time_point* ends) {
  for (const Launch& launch : job) {
    launch.function(launch.args, thread, threads, &barrier);
    meet(barrier, threads, share);
    if (ends != nullptr) *ends++ = Clock::now();
  }
}

double Runner::Impl::run(std::span<const Launch> job, Clock::time_point* times) {
  if (job.empty()) return 0;
  const PinnedHere pinned(cpu_of(0));
  const FlushDenormals flush;
  if (threads > 1) {
    post(job);
    // Arriving last makes thread 0 the one that opens the barrier: the clock starts with all workers at it.
    Spin spin(share);
    while (__atomic_load_n(&barrier.arrived, __ATOMIC_ACQUIRE) != threads - 1) spin.once();
  }
  const auto start = Clock::now();
  meet(barrier, threads, share);
  execute(job, 0, times != nullptr ? times + 1 : nullptr);
  if (times != nullptr) *times = start;
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Runner::Runner(int threads) {
  if (threads < 1)
    throw base::InternalError("a runner needs at least one thread, not " + std::to_string(threads));
  impl_ = std::make_unique<Impl>(threads);
}

Runner::~Runner() = default;

int Runner::threads() const { return impl_->threads; }
void Runner::run(std::span<const Launch> launches) { impl_->run(launches); }
double Runner::run_timed(std::span<const Launch> launches) { return impl_->run(launches); }
void Runner::run_stamped(std::span<const Launch> launches, std::span<Clock::time_point> times) {
  if (times.size() != launches.size() + 1)
    throw base::InternalError(std::to_string(times.size()) + " times for " + std::to_string(launches.size()) +
                              " launches");
  impl_->run(launches, times.data());
}

}  // namespace fusetune::backend::cpu
