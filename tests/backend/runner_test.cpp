#include "backend/cpu/runner.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>
#include <thread>
#include <vector>

#include "backend/cpu/float_mode.h"
#include "base/error.h"

namespace fusetune::backend::cpu {
namespace {

constexpr int kMostThreads = 8;

/// ft_args whose tensor 0 points to `state`.
ft_args args_for(void* state) {
  ft_args args = {};
  args.tensor[0] = state;
  return args;
}

struct Calls {
  std::array<std::atomic<int>, kMostThreads> of_thread{};
  std::atomic<int> wrong_count{0};
  int threads = 0;
};

void count_call(const ft_args* args, int thread, int threads, ft_barrier*) {
  Calls& calls = *static_cast<Calls*>(args->tensor[0]);
  calls.of_thread[static_cast<std::size_t>(thread)]++;
  if (threads != calls.threads) calls.wrong_count++;
}

class RunnerThreads : public ::testing::TestWithParam<int> {
 protected:
  const int threads_ = GetParam();
};

TEST_P(RunnerThreads, EveryThreadRunsEveryLaunchOnce) {
  Runner runner(threads_);
  EXPECT_EQ(runner.threads(), threads_);
  Calls calls;
  calls.threads = threads_;
  const ft_args args = args_for(&calls);
  const std::vector<Launch> launches(5, Launch{&count_call, &args});
  for (int i = 0; i < 20; ++i) runner.run(launches);
  for (int thread = 0; thread < kMostThreads; ++thread) {
    EXPECT_EQ(calls.of_thread[static_cast<std::size_t>(thread)], thread < threads_ ? 100 : 0) << thread;
  }
  EXPECT_EQ(calls.wrong_count, 0);
}

/// Plain memory, so that ThreadSanitizer sees a missing barrier.
struct Stages {
  std::array<int, kMostThreads> value{};
  std::atomic<int> disagreements{0};
};

void write_own(const ft_args* args, int thread, int, ft_barrier*) {
  static_cast<Stages*>(args->tensor[0])->value[static_cast<std::size_t>(thread)]++;
}

void read_all(const ft_args* args, int, int threads, ft_barrier*) {
  Stages& stages = *static_cast<Stages*>(args->tensor[0]);
  for (int i = 1; i < threads; ++i) {
    if (stages.value[static_cast<std::size_t>(i)] != stages.value[0]) stages.disagreements++;
  }
}

TEST_P(RunnerThreads, AllThreadsMeetBetweenLaunches) {
  Runner runner(threads_);
  Stages stages;
  const ft_args args = args_for(&stages);
  const std::array<Launch, 4> launches = {
      Launch{&write_own, &args}, {&read_all, &args}, {&write_own, &args}, {&read_all, &args}};
  const int runs = 300;
  for (int i = 0; i < runs; ++i) runner.run(launches);
  EXPECT_EQ(stages.disagreements, 0);
  EXPECT_EQ(stages.value[0], 2 * runs);  // and run() returns after the last launch is complete
}

void barriers_inside(const ft_args* args, int thread, int threads, ft_barrier* barrier) {
  Stages& stages = *static_cast<Stages*>(args->tensor[0]);
  for (int round = 0; round < 20; ++round) {
    stages.value[static_cast<std::size_t>(thread)]++;
    ft_barrier_wait(barrier, threads);
    for (int i = 0; i < threads; ++i) {
      if (stages.value[static_cast<std::size_t>(i)] != stages.value[static_cast<std::size_t>(thread)]) {
        stages.disagreements++;
      }
    }
    ft_barrier_wait(barrier, threads);
  }
}

TEST_P(RunnerThreads, KernelsMayUseTheBarrier) {
  Runner runner(threads_);
  Stages stages;
  const ft_args args = args_for(&stages);
  const std::array<Launch, 2> launches = {Launch{&barriers_inside, &args}, {&barriers_inside, &args}};
  const bool oversubscribed = threads_ > static_cast<int>(std::thread::hardware_concurrency());
  const int runs = oversubscribed ? 2 : 50;  // the kernels' barrier only pauses
  for (int i = 0; i < runs; ++i) runner.run(launches);
  EXPECT_EQ(stages.disagreements, 0);
  EXPECT_EQ(stages.value[0], runs * 40);
}

TEST_P(RunnerThreads, WakesUpAfterItsWorkersWentToSleep) {
  Runner runner(threads_);
  Calls calls;
  calls.threads = threads_;
  const ft_args args = args_for(&calls);
  const Launch launch{&count_call, &args};
  for (int i = 0; i < 4; ++i) {
    runner.run({&launch, 1});
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  for (int thread = 0; thread < threads_; ++thread)
    EXPECT_EQ(calls.of_thread[static_cast<std::size_t>(thread)], 4);
}

struct Denormals {
  std::array<std::atomic<bool>, kMostThreads> flushed{};
};

void multiply_denormal(const ft_args* args, int thread, int, ft_barrier*) {
  volatile float tiny = std::numeric_limits<float>::min();
  volatile float half = 0.5f;
  volatile float product = tiny * half;
  static_cast<Denormals*>(args->tensor[0])->flushed[static_cast<std::size_t>(thread)] = product == 0.0f;
}

TEST_P(RunnerThreads, DenormalsAreZeroInKernelsAndNotInTheCaller) {
  if (FlushDenormals::kFlush == 0) GTEST_SKIP() << "this architecture has no such mode";
  Denormals seen;
  const ft_args args = args_for(&seen);
  const Launch launch{&multiply_denormal, &args};
  const auto before = FlushDenormals::read();
  Runner runner(threads_);
  runner.run({&launch, 1});
  // The control bits; the sticky exception flags are whatever the caller computed.
  EXPECT_EQ(FlushDenormals::read() & FlushDenormals::kFlush, before & FlushDenormals::kFlush);
  for (int thread = 0; thread < threads_; ++thread)
    EXPECT_TRUE(seen.flushed[static_cast<std::size_t>(thread)]) << thread;
  seen.flushed[0] = true;
  multiply_denormal(&args, 0, 1, nullptr);
  EXPECT_FALSE(seen.flushed[0]) << "the calling thread kept the kernels' mode";
}

INSTANTIATE_TEST_SUITE_P(Counts, RunnerThreads, ::testing::Values(1, 2, 3, 4));

struct Places {
  std::array<std::atomic<int>, kMostThreads> cpus{};   // CPUs the thread may use
  std::array<std::atomic<int>, kMostThreads> where{};  // the first of them
};

void record_place(const ft_args* args, int thread, int, ft_barrier*) {
  Places& places = *static_cast<Places*>(args->tensor[0]);
  cpu_set_t set;
  sched_getaffinity(0, sizeof set, &set);
  const auto index = static_cast<std::size_t>(thread);
  places.cpus[index] = CPU_COUNT(&set);
  for (int cpu = CPU_SETSIZE - 1; cpu >= 0; --cpu) {
    if (CPU_ISSET(cpu, &set)) places.where[index] = cpu;
  }
}

TEST(Runner, PinsEachThreadToACpuOfItsOwnAndLetsTheCallerGo) {
  cpu_set_t before, after;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  const int threads = std::min(CPU_COUNT(&before), kMostThreads);
  Places places;
  const ft_args args = args_for(&places);
  const Launch launch{&record_place, &args};
  Runner(threads).run({&launch, 1});
  ASSERT_EQ(sched_getaffinity(0, sizeof after, &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
  for (int i = 0; i < threads; ++i) {
    EXPECT_EQ(places.cpus[static_cast<std::size_t>(i)], 1);
    EXPECT_TRUE(CPU_ISSET(places.where[static_cast<std::size_t>(i)].load(), &before));
    for (int j = 0; j < i; ++j) {
      EXPECT_NE(places.where[static_cast<std::size_t>(i)], places.where[static_cast<std::size_t>(j)]);
    }
  }
}

void wait_two_milliseconds(const ft_args*, int thread, int, ft_barrier*) {
  if (thread != 0) return;  // the other threads are waited for at the end, and wait for this one
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(2);
  while (std::chrono::steady_clock::now() < end) ft_pause();
}

void nothing(const ft_args*, int, int, ft_barrier*) {}

TEST(Runner, TimesFromTheFirstToAfterTheLastLaunch) {
  Runner runner(2);
  const std::array<Launch, 3> launches = {Launch{&wait_two_milliseconds, nullptr},
                                          {&wait_two_milliseconds, nullptr},
                                          {&wait_two_milliseconds, nullptr}};
  const auto start = std::chrono::steady_clock::now();
  const double seconds = runner.run_timed(launches);
  const double outside = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  EXPECT_GE(seconds, 6e-3);
  EXPECT_LE(seconds, outside);
}

TEST(Runner, StampsTheEndOfEachLaunch) {
  Runner runner(2);
  const std::array<Launch, 3> launches = {
      Launch{&wait_two_milliseconds, nullptr}, {&nothing, nullptr}, {&wait_two_milliseconds, nullptr}};
  using Clock = std::chrono::steady_clock;
  std::array<Clock::time_point, 4> times;
  const auto before = Clock::now();
  runner.run_stamped(launches, times);
  const auto after = Clock::now();
  const auto milliseconds = [&](std::size_t launch) {
    return std::chrono::duration<double, std::milli>(times[launch + 1] - times[launch]).count();
  };
  EXPECT_GE(times.front(), before);
  EXPECT_LE(times.back(), after);
  EXPECT_GE(milliseconds(0), 2);
  EXPECT_GE(milliseconds(1), 0);
  EXPECT_GE(milliseconds(2), 2);
  EXPECT_THROW(runner.run_stamped(launches, std::span(times).first(3)), base::InternalError);
}

TEST(Runner, NothingToRunTakesNoTime) {
  Runner runner(2);
  EXPECT_EQ(runner.run_timed({}), 0);
  runner.run({});
}

double processor_seconds() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

TEST(Runner, IdleWorkersSleep) {
  Runner runner(2);
  Calls calls;
  calls.threads = 2;
  const ft_args args = args_for(&calls);
  const Launch launch{&count_call, &args};
  runner.run({&launch, 1});
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  const double before = processor_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_LT(processor_seconds() - before, 0.1);  // a spinning worker would use 0.2
}

TEST(Runner, SeveralRunnersLiveSideBySide) {
  Runner first(2), second(2);
  Calls calls;
  calls.threads = 2;
  const ft_args args = args_for(&calls);
  const Launch launch{&count_call, &args};
  for (int i = 0; i < 10; ++i) {
    first.run({&launch, 1});
    second.run({&launch, 1});
  }
  EXPECT_EQ(calls.of_thread[1], 20);
}

TEST(Runner, StartsAndEndsWithoutRunningAnything) {
  for (int i = 0; i < 50; ++i) Runner runner(1 + i % 4);
}

TEST(Runner, RefusesZeroThreads) { EXPECT_THROW(Runner(0), base::InternalError); }

}  // namespace
}  // namespace fusetune::backend::cpu
