#include "base/subprocess.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <fstream>
#include <functional>
#include <stop_token>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "base/number.h"
#include "base/text.h"

namespace fusetune::base {
namespace {

using testing::HasSubstr;

// True once `condition` holds; false when it does not within ten seconds.
bool eventually(const std::function<bool()>& condition) {
  for (int i = 0; i < 1000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

// Gone, or a zombie that its (foreign) parent did not wait for yet.
bool is_dead(pid_t pid) {
  if (::kill(pid, 0) != 0) return errno == ESRCH;
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string text((std::istreambuf_iterator<char>(stat)), {});
  const auto name_end = text.rfind(") ");
  return name_end == std::string::npos || text[name_end + 2] == 'Z';
}

pid_t read_pid(const std::filesystem::path& file) {
  std::string text;
  EXPECT_TRUE(eventually([&] {
    std::ifstream stream(file);
    return static_cast<bool>(std::getline(stream, text)) && !text.empty();
  }));
  return static_cast<pid_t>(parse_int(trim(text)).value_or(-1));
}

TEST(RunProcess, CollectsOutputAndExitCode) {
  const auto result = run_process({"sh", "-c", "echo out; echo err >&2; exit 7"});
  EXPECT_EQ(result.exit_code, 7);
  EXPECT_EQ(result.signal, 0);
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.output, "out\nerr\n");
  EXPECT_GT(result.seconds, 0);
}

TEST(RunProcess, PassesArgumentsWithoutAShell) {
  EXPECT_EQ(run_process({"printf", "%s|", "a b", "$HOME", "*", ""}).output, "a b|$HOME|*||");
}

TEST(RunProcess, TellsTheSignal) {
  const auto result = run_process({"sh", "-c", "kill -SEGV $$"});
  EXPECT_EQ(result.signal, SIGSEGV);
  EXPECT_EQ(result.exit_code, -1);
}

TEST(RunProcess, UnknownProgramIsAnEnvironmentError) {
  try {
    run_process({"fusetune-no-such-program"});
    FAIL() << "started a program that does not exist";
  } catch (const EnvironmentError& error) {
    EXPECT_THAT(error.what(), HasSubstr("fusetune-no-such-program"));
    EXPECT_THAT(error.what(), HasSubstr("PATH"));
  }
  EXPECT_THROW(run_process({"/"}), EnvironmentError);
  EXPECT_THROW(run_process({}), InternalError);
}

TEST(RunProcess, InputIsFedWhileOutputIsRead) {
  // More than two pipes hold: feeding everything before reading anything would deadlock.
  ProcessOptions options;
  options.input.assign(3 << 20, 'x');
  options.timeout_seconds = 60;
  const auto result = run_process({"cat"}, options);
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.output, options.input);
}

TEST(RunProcess, WithoutInputItIsEmpty) { EXPECT_EQ(run_process({"cat"}).output, ""); }

TEST(RunProcess, UnreadInputIsNoError) {
  ProcessOptions options;
  options.input.assign(3 << 20, 'x');
  EXPECT_EQ(run_process({"true"}, options).exit_code, 0);
}

TEST(RunProcess, TimeoutKillsTheWholeGroup) {
  const TemporaryDirectory directory;
  const auto pid_file = directory.path() / "pid";
  ProcessOptions options;
  options.timeout_seconds = 2;
  const auto start = std::chrono::steady_clock::now();
  const auto result =
      run_process({"sh", "-c", "sleep 600 & echo $! > '" + pid_file.string() + "'; wait"}, options);
  EXPECT_TRUE(result.timed_out);
  EXPECT_EQ(result.signal, SIGKILL);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
  const pid_t grandchild = read_pid(pid_file);
  ASSERT_GT(grandchild, 0);
  EXPECT_TRUE(eventually([&] { return is_dead(grandchild); }));
}

TEST(RunProcess, AStopKillsTheWholeGroup) {
  const TemporaryDirectory directory;
  const auto pid_file = directory.path() / "pid";
  std::stop_source stop;
  ProcessOptions options;
  options.stop = stop.get_token();
  pid_t grandchild = 0;
  std::thread stopper([&] {
    grandchild = read_pid(pid_file);
    stop.request_stop();
  });
  const auto result =
      run_process({"sh", "-c", "sleep 600 & echo $! > '" + pid_file.string() + "'; wait"}, options);
  stopper.join();
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.signal, SIGKILL);
  ASSERT_GT(grandchild, 0);
  EXPECT_TRUE(eventually([&] { return is_dead(grandchild); }));
}

TEST(RunProcess, WhatItLeavesRunningIsKilledAndNotWaitedFor) {
  ProcessOptions options;
  options.timeout_seconds = 60;
  const auto result = run_process({"sh", "-c", "sleep 600 & echo $!"}, options);
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.exit_code, 0);
  const auto grandchild = parse_int(trim(result.output));
  ASSERT_TRUE(grandchild);
  EXPECT_TRUE(eventually([&] { return is_dead(static_cast<pid_t>(*grandchild)); }));
}

TEST(RunProcess, EndlessOutputIsCutAndStillTimesOut) {
  ProcessOptions options;
  options.timeout_seconds = 1;
  const auto result = run_process({TEST_CHILD, "flood"}, options);
  EXPECT_TRUE(result.timed_out);
  EXPECT_LE(result.output.size(), (std::size_t{16} << 20) + 100);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they reserve terabytes of addresses
TEST(RunProcess, MemoryLimitHolds) {
  ProcessOptions options;
  options.memory_limit_bytes = std::int64_t{64} << 20;
  const std::vector<std::string> want_100_megabytes = {"dd", "if=/dev/zero", "of=/dev/null", "bs=100M",
                                                       "count=1"};
  EXPECT_NE(run_process(want_100_megabytes, options).exit_code, 0);
  EXPECT_EQ(run_process(want_100_megabytes).exit_code, 0);
}
#endif

TEST(RunProcess, ManyThreadsAtOnce) {
  std::vector<std::thread> threads;
  std::array<int, 8> right{};
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&right, i] {
      for (int n = 0; n < 10; ++n) {
        ProcessOptions options;
        options.input = std::to_string(i * 100 + n);
        right[i] += run_process({"cat"}, options).output == options.input ? 1 : 0;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_THAT(right, testing::Each(10));
}

TEST(ChildProcess, EchoesMessagesOfEverySize) {
  ChildProcess child({TEST_CHILD, "echo"});
  for (const std::size_t size : {0, 1, 4, 65535, 65536, 65537, 20'000'000}) {
    std::string sent(size, 'm');
    for (std::size_t i = 0; i < size; i += 251) sent[i] = static_cast<char>(i);
    child.send(sent);
    std::string got = "before";
    ASSERT_EQ(child.receive(got, 60), ChildProcess::Wait::message);
    EXPECT_TRUE(got == sent) << size << " bytes changed on the way";
  }
}

TEST(ChildProcess, KeepsMessagesApart) {
  ChildProcess child({TEST_CHILD, "echo"});
  child.send("one");
  child.send("two");
  std::string got;
  ASSERT_EQ(child.receive(got, 60), ChildProcess::Wait::message);
  EXPECT_EQ(got, "one");
  ASSERT_EQ(child.receive(got, 60), ChildProcess::Wait::message);
  EXPECT_EQ(got, "two");
  EXPECT_EQ(child.end_description(), "still running");
}

TEST(ChildProcess, TimeoutInTheMiddleOfAMessageLosesNothing) {
  ChildProcess child({TEST_CHILD, "stutter"});
  std::string got = "untouched";
  auto wait = child.receive(got, 0.05);
  while (wait == ChildProcess::Wait::timeout) {
    EXPECT_EQ(got, "untouched");
    wait = child.receive(got, 0.05);
  }
  ASSERT_EQ(wait, ChildProcess::Wait::message);
  EXPECT_EQ(got, "abcdef");
}

TEST(ChildProcess, HangingChildTimesOutAndCanBeKilled) {
  ChildProcess child({TEST_CHILD, "hang"});
  std::string got;
  EXPECT_EQ(child.receive(got, 0.05), ChildProcess::Wait::timeout);
  EXPECT_EQ(child.receive(got, 0), ChildProcess::Wait::timeout);
  child.kill();
  EXPECT_EQ(child.receive(got, 60), ChildProcess::Wait::ended);
  EXPECT_EQ(child.end_description(), "signal 9 (SIGKILL)");
  child.kill();  // harmless
}

TEST(ChildProcess, OfSeveralTheFirstToSpeakOrEndIsNoticed) {
  ChildProcess echo({TEST_CHILD, "echo"}), hang({TEST_CHILD, "hang"});
  ChildProcess* const both[] = {&hang, &echo};
  const auto seconds_until = [&](double timeout) {
    const auto start = std::chrono::steady_clock::now();
    ChildProcess::wait_for_any(both, timeout);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  EXPECT_GE(seconds_until(0.05), 0.05) << "neither has anything to say";
  echo.send("hello");
  EXPECT_LT(seconds_until(30), 20);
  std::string got;
  EXPECT_EQ(hang.receive(got, 0), ChildProcess::Wait::timeout);
  ASSERT_EQ(echo.receive(got, 0), ChildProcess::Wait::message);
  EXPECT_EQ(got, "hello");
  hang.kill();
  EXPECT_LT(seconds_until(30), 20);
  EXPECT_EQ(hang.receive(got, 0), ChildProcess::Wait::ended);
}

TEST(ChildProcess, DeadChildIsDescribed) {
  std::string got;
  ChildProcess crashes({TEST_CHILD, "segfault"});
  EXPECT_EQ(crashes.receive(got, 60), ChildProcess::Wait::ended);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)  // they turn the signal into an exit code
  EXPECT_THAT(crashes.end_description(), HasSubstr("exit code"));
#else
  EXPECT_EQ(crashes.end_description(), "signal 11 (SIGSEGV)");
#endif
  ChildProcess exits({TEST_CHILD, "exit"});
  EXPECT_EQ(exits.receive(got, 60), ChildProcess::Wait::ended);
  EXPECT_EQ(exits.end_description(), "exit code 3");
}

TEST(ChildProcess, SendingToADeadChildIsAnErrorNotASignal) {
  ChildProcess child({TEST_CHILD, "exit"});
  std::string got;
  ASSERT_EQ(child.receive(got, 60), ChildProcess::Wait::ended);
  try {
    child.send("anybody there?");
    FAIL() << "sent to a dead child";
  } catch (const EnvironmentError& error) {
    EXPECT_THAT(error.what(), HasSubstr("exit code 3"));
  }
  sigset_t pending;
  sigpending(&pending);
  EXPECT_EQ(sigismember(&pending, SIGPIPE), 0);
}

TEST(ChildProcess, LastWordsArriveBeforeTheEnd) {
  ChildProcess child({TEST_CHILD, "write-then-exit"});
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  std::string got;
  ASSERT_EQ(child.receive(got, 60), ChildProcess::Wait::message);
  EXPECT_EQ(got, "last words");
  EXPECT_EQ(child.receive(got, 60), ChildProcess::Wait::ended);
}

TEST(ChildProcess, GarbageAndAClosedPipeEndIt) {
  for (const char* mode : {"garbage", "close-then-hang"}) {
    ChildProcess child({TEST_CHILD, mode});
    std::string got;
    EXPECT_EQ(child.receive(got, 60), ChildProcess::Wait::ended) << mode;
    EXPECT_EQ(child.end_description(), "signal 9 (SIGKILL)") << mode;
  }
}

TEST(ChildProcess, DiesWithItsParent) {
  const TemporaryDirectory directory;
  const auto pid_file = directory.path() / "pid";
  // The worker's stdout is its parent's stderr, where it writes its number.
  ChildProcess parent({"sh", "-c", "exec \"$0\" keep-worker 2> \"$1\"", TEST_CHILD, pid_file.string()});
  const pid_t worker = read_pid(pid_file);
  ASSERT_GT(worker, 0);
  EXPECT_FALSE(is_dead(worker));
  parent.kill();  // its process group, which the worker is not in
  EXPECT_TRUE(eventually([&] { return is_dead(worker); }));
}

}  // namespace
}  // namespace fusetune::base
