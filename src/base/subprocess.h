// Other programs: run one to its end, or keep one as a worker and exchange messages with it.
//
// Every child leads its own process group, which is killed as a whole, and gets SIGKILL when the thread that
// started it ends: start children from threads that outlive them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace fusetune::base {

struct ProcessOptions {
  double timeout_seconds = 0;           // 0: none; then the process group is killed
  std::int64_t memory_limit_bytes = 0;  // address space of each process of the group; 0: none
  std::string input;                    // its standard input, which is empty otherwise
  std::stop_token stop = {};            // once stop is requested, the process group is killed
};

struct ProcessResult {
  int exit_code = -1;  // -1 when a signal ended it
  int signal = 0;      // the signal that ended it; SIGKILL after a timeout or a requested stop
  bool timed_out = false;
  std::string output;  // stdout and stderr as they came, cut with a note at 16 MiB
  double seconds = 0;  // wall clock
};

/// Runs argv[0] (searched in PATH when it has no slash) to its end, without a shell; what it left running in
/// its process group is killed. Failing is the program's right: see the result. Throws EnvironmentError only
/// when it cannot be started (no such program, not executable, no more processes).
ProcessResult run_process(const std::vector<std::string>& argv, const ProcessOptions& options = {});

/// File descriptors of the child's side of a ChildProcess.
inline constexpr int kChildReadFd = 3;
inline constexpr int kChildWriteFd = 4;

/// A worker program that exchanges messages with its parent: each is four bytes of length, little-endian, and
/// as many bytes. The child reads from descriptor 3 and writes to 4. Its stdin is empty and its stdout goes
/// to stderr, so that it cannot mix with the parent's results. Not thread-safe.
class ChildProcess {
 public:
  /// Throws EnvironmentError when the program cannot be started.
  explicit ChildProcess(const std::vector<std::string>& argv);
  /// Kills it, if it still runs.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  /// Throws EnvironmentError with end_description() when the child died. Blocks while the child does not
  /// read.
  void send(std::string_view message);

  enum class Wait { message, timeout, ended };
  /// Waits for the child's next message. `message` is set for Wait::message only. Wait::ended: the child
  /// ended, or sent something that is no message and was killed. After Wait::timeout the child still runs and
  /// receive() may be called again. Messages sent before the child ended are delivered first.
  Wait receive(std::string& message, double timeout_seconds);

  /// Kills the process group; nothing when it has ended.
  void kill();

  /// Waits until one of `children` sends something or ends, or the time is over: receive() says what it was.
  /// What receive() has read already, a second message, is not waited for.
  static void wait_for_any(std::span<ChildProcess* const> children, double timeout_seconds);

  /// How it ended: "signal 11 (SIGSEGV)", "exit code 3", or "still running".
  std::string end_description();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The child's side. Blocks; false when the other side is gone.
bool read_message(int fd, std::string& message);
bool write_message(int fd, std::string_view message);

}  // namespace fusetune::base
