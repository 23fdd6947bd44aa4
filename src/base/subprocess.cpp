// Linux only: pidfd_open, PR_SET_PDEATHSIG, close_range.
#include "base/subprocess.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <optional>
#include <system_error>
#include <thread>

#include "base/error.h"
#include "base/message.h"
#include "base/text.h"
#include "base/unique_fd.h"

namespace fusetune::base {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMaxOutput = std::size_t{16} << 20;
constexpr double kForever = std::numeric_limits<double>::infinity();

std::string reason(int error) { return std::generic_category().message(error); }

// ---- Waiting
// -------------------------------------------------------------------------------------------------

class Deadline {
 public:
  /// `seconds` may be infinite; negative and NaN mean now.
  explicit Deadline(double seconds) {
    constexpr double kTooLong = 1e9;  // seconds; beyond it, and beyond the clock's range, is never
    if (seconds < kTooLong || std::isnan(seconds)) {
      const double wait = seconds > 0 ? seconds : 0;
      end_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(wait));
    }
  }
  bool passed() const { return end_ && Clock::now() >= *end_; }
  /// For poll(2): rounded up, so that a wait of the whole time ends after the deadline. -1: for ever.
  int milliseconds_left() const {
    if (!end_) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*end_ - Clock::now()).count();
    return static_cast<int>(std::clamp<std::int64_t>(left, 0, std::numeric_limits<int>::max()));
  }

 private:
  std::optional<Clock::time_point> end_;
};

// poll() with signals handled; descriptors of -1 are ignored. `look_up` wakes up regularly, for what is no
// event: the end of a child on kernels without pidfd_open, a requested stop.
void wait_for_events(pollfd* events, nfds_t count, const Deadline& deadline, bool look_up) {
  int timeout = deadline.milliseconds_left();
  constexpr int kSlice = 20;
  if (look_up) timeout = timeout < 0 ? kSlice : std::min(timeout, kSlice);
  if (::poll(events, count, timeout) < 0) {
    if (errno != EINTR) throw EnvironmentError("cannot wait for a child process: " + reason(errno));
    for (nfds_t i = 0; i < count; ++i) events[i].revents = 0;
  }
}

// ---- Starting
// ------------------------------------------------------------------------------------------------

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

Pipe make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw EnvironmentError("cannot create a pipe: " + reason(errno));
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

void set_nonblocking(const UniqueFd& fd) {
  ::fcntl(fd.get(), F_SETFL, ::fcntl(fd.get(), F_GETFL) | O_NONBLOCK);
}

// What execve is given, found before fork: between fork and exec only async-signal-safe calls are allowed,
// and neither a search of PATH nor an allocation is one.
struct Program {
  explicit Program(const std::vector<std::string>& argv) {
    if (argv.empty() || argv[0].empty()) throw InternalError("a process to run needs a program name");
    path = find(argv[0]);
    for (const auto& argument : argv) arguments.push_back(const_cast<char*>(argument.c_str()));
    arguments.push_back(nullptr);
  }

  static std::string find(const std::string& name) {
    if (name.find('/') != std::string::npos) return name;
    const char* variable = std::getenv("PATH");
    for (const auto& directory :
         split(variable == nullptr ? "/usr/local/bin:/usr/bin:/bin" : variable, ':')) {
      std::string candidate = (directory.empty() ? "." : directory) + "/" + name;
      if (::access(candidate.c_str(), X_OK) == 0) return candidate;
    }
    throw EnvironmentError("cannot run '" + name + "': no such program in PATH");
  }

  std::string path;
  std::vector<char*> arguments;
};

// What becomes of the child's descriptors and limits. Descriptors are the parent's numbers.
struct ChildSetup {
  int standard_input = -1;   // -1: /dev/null
  int standard_output = -1;  // -1: the parent's stderr
  int standard_error = -1;   // -1: the parent's
  int message_read = -1;     // becomes descriptor 3
  int message_write = -1;    // becomes descriptor 4
  rlim_t memory_bytes = 0;
  rlim_t cpu_seconds = 0;
};

// Moves descriptor `from` to `to`. Sources were lifted above all targets before, so that none is overwritten.
bool place(int from, int to) { return from < 0 || ::dup2(from, to) >= 0; }

bool lift(int& fd) {
  constexpr int kAboveTargets = 10;
  if (fd < 0) return true;
  fd = ::fcntl(fd, F_DUPFD_CLOEXEC, kAboveTargets);
  return fd >= 0;
}

bool arrange_descriptors(ChildSetup& setup) {
  if (setup.standard_input < 0) setup.standard_input = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (setup.standard_input < 0) return false;
  if (setup.standard_output < 0) setup.standard_output = STDERR_FILENO;
  for (int* fd : {&setup.standard_input, &setup.standard_output, &setup.standard_error, &setup.message_read,
                  &setup.message_write}) {
    if (!lift(*fd)) return false;
  }
  const bool placed = place(setup.standard_input, STDIN_FILENO) &&
                      place(setup.standard_output, STDOUT_FILENO) &&
                      place(setup.standard_error, STDERR_FILENO) && place(setup.message_read, kChildReadFd) &&
                      place(setup.message_write, kChildWriteFd);
  // Whatever else a library opened without O_CLOEXEC stays here; older kernels do without.
  const int first_other = setup.message_read < 0 ? STDERR_FILENO + 1 : kChildWriteFd + 1;
  ::syscall(SYS_close_range, first_other, ~0U, /* CLOSE_RANGE_CLOEXEC */ 1U << 2);
  return placed;
}

void limit(__rlimit_resource resource, rlim_t value) {
  if (value == 0) return;
  const rlimit limits{value, value};
  ::setrlimit(resource, &limits);
}

// Runs in the child. Reports errno through `error_fd` if the program cannot be started; else exec closes it.
[[noreturn]] void become(const Program& program, ChildSetup setup, int error_fd, pid_t parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);  // the parent ended before prctl took effect
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int ignorable : {SIGPIPE, SIGINT, SIGTERM, SIGHUP}) ::signal(ignorable, SIG_DFL);
  limit(RLIMIT_AS, setup.memory_bytes);
  limit(RLIMIT_CPU, setup.cpu_seconds);
  if (lift(error_fd) && arrange_descriptors(setup)) {
    ::execv(program.path.c_str(), program.arguments.data());
  }
  const int error = errno;
  [[maybe_unused]] const auto written = ::write(error_fd, &error, sizeof error);
  ::_exit(127);
}

// A started child: its process group, and the event of its end.
class Process {
 public:
  Process(const std::vector<std::string>& argv, const ChildSetup& setup) {
    const Program program(argv);
    Pipe errors = make_pipe();
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ < 0) throw EnvironmentError("cannot run '" + argv[0] + "': " + reason(errno));
    if (pid_ == 0) become(program, setup, errors.write.get(), parent);
    errors.write.close();
    int error = 0;
    ssize_t got = 0;
    do {
      got = ::read(errors.read.get(), &error, sizeof error);
    } while (got < 0 && errno == EINTR);
    if (got == static_cast<ssize_t>(sizeof error)) {
      reap();
      throw EnvironmentError("cannot run '" + program.path + "': " + reason(error));
    }
    pidfd_ = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  }
  ~Process() { end(); }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  /// Readable once the child ended; -1 where the kernel has none.
  int pidfd() const { return pidfd_.get(); }
  /// The status of waitpid(2); only after the child ended.
  int status() const { return status_.value_or(0); }

  /// True when the child ended by itself; it and its group are then cleaned up.
  bool has_ended() {
    if (status_) return true;
    siginfo_t info{};
    const int result = ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT);
    if (result == 0 && info.si_pid == 0) return false;
    end();  // also where waiting fails: then somebody else reaped the child
    return true;
  }

  /// Waits until the child ended or the deadline passed; true when it ended.
  bool wait(const Deadline& deadline) {
    while (!has_ended()) {
      if (deadline.passed()) return false;
      pollfd event{pidfd(), POLLIN, 0};
      wait_for_events(&event, 1, deadline, pidfd() < 0);
    }
    return true;
  }

  /// Kills what is left of the group and reaps the child. The group is killed before the child is reaped:
  /// until then no other process can have its number.
  void end() {
    if (status_) return;
    ::kill(-pid_, SIGKILL);
    reap();
  }

 private:
  void reap() {
    int status = 0;
    pid_t got = 0;
    do {
      got = ::waitpid(pid_, &status, 0);
    } while (got < 0 && errno == EINTR);
    status_ = got == pid_ ? status : 0;
  }

  pid_t pid_ = -1;
  UniqueFd pidfd_;
  std::optional<int> status_;
};

// ---- Reading and writing
// -------------------------------------------------------------------------------------

// Writing to a pipe whose reader is gone raises SIGPIPE, which ends the process by default. A library must
// not change the process's handlers, so the signal is held off in this thread, and taken back if it was
// raised.
class SigpipeHeldOff {
 public:
  SigpipeHeldOff() {
    ::sigemptyset(&sigpipe_);
    ::sigaddset(&sigpipe_, SIGPIPE);
    sigset_t pending;
    ::sigpending(&pending);
    was_pending_ = ::sigismember(&pending, SIGPIPE) == 1;
    ::pthread_sigmask(SIG_BLOCK, &sigpipe_, &before_);
  }
  ~SigpipeHeldOff() {
    const timespec now{0, 0};
    if (!was_pending_) {
      while (::sigtimedwait(&sigpipe_, nullptr, &now) < 0 && errno == EINTR) {
      }
    }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  SigpipeHeldOff(const SigpipeHeldOff&) = delete;
  SigpipeHeldOff& operator=(const SigpipeHeldOff&) = delete;

 private:
  sigset_t sigpipe_{};
  sigset_t before_{};
  bool was_pending_ = false;
};

bool write_whole(int fd, std::string_view bytes) {
  const SigpipeHeldOff held_off;
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

bool read_whole(int fd, char* bytes, std::size_t size) {
  while (size > 0) {
    const ssize_t got = ::read(fd, bytes, size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    bytes += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

// Appends what a non-blocking descriptor has now; false at the end of the stream. Takes more than a pipe can
// hold, but no endless amount: whoever writes without a pause must not keep us from looking at the clock.
bool drain(int fd, std::string& to) {
  std::array<char, 1 << 16> buffer;
  for (int chunk = 0; chunk < 64; ++chunk) {
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got < 0 && errno == EAGAIN;
    to.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return true;
}

// Output of a child, up to the limit; the rest is read (the child must not block) and dropped.
class Output {
 public:
  explicit Output(UniqueFd fd) : fd_(std::move(fd)) { set_nonblocking(fd_); }
  int fd() const { return fd_.get(); }

  /// Takes what is there now; closes at the end of the stream.
  void take_available() {
    if (fd_ && !drain(fd_.get(), text_)) fd_.close();
    if (text_.size() <= kMaxOutput) return;
    text_.resize(kMaxOutput);
    cut_ = true;
  }
  std::string take() {
    if (cut_) text_ += "\n[output cut at 16 MiB]\n";
    return std::move(text_);
  }

 private:
  UniqueFd fd_;
  std::string text_;
  bool cut_ = false;
};

// Feeds standard input without ever blocking: a child may write much before it reads.
class Input {
 public:
  Input(UniqueFd fd, std::string_view text) : fd_(std::move(fd)), rest_(text) { set_nonblocking(fd_); }
  int fd() const { return fd_.get(); }

  void feed() {
    const SigpipeHeldOff held_off;
    while (!rest_.empty()) {
      const ssize_t written = ::write(fd_.get(), rest_.data(), rest_.size());
      if (written < 0 && (errno == EAGAIN || errno == EINTR)) return;
      if (written < 0) break;  // it does not want its input: its right
      rest_.remove_prefix(static_cast<std::size_t>(written));
    }
    fd_.close();
  }

 private:
  UniqueFd fd_;
  std::string_view rest_;
};

// The processor time that a group killed at its timeout cannot have reached. It ends grandchildren (a
// compiler's passes) that outlive a parent killed without notice; PR_SET_PDEATHSIG covers only the child
// itself.
rlim_t cpu_backstop(double timeout_seconds) {
  if (!(timeout_seconds > 0) || timeout_seconds > 1e6) return 0;
  const unsigned cpus = std::max(1U, std::thread::hardware_concurrency());
  return static_cast<rlim_t>(std::ceil(timeout_seconds)) * cpus + 1;
}

void set_end(ProcessResult& result, int status) {
  if (WIFSIGNALED(status)) {
    result.signal = WTERMSIG(status);
  } else {
    result.exit_code = WEXITSTATUS(status);
  }
}

}  // namespace

ProcessResult run_process(const std::vector<std::string>& argv, const ProcessOptions& options) {
  const auto start = Clock::now();
  const Deadline deadline(options.timeout_seconds > 0 ? options.timeout_seconds : kForever);
  Pipe input_pipe;
  if (!options.input.empty()) input_pipe = make_pipe();
  Pipe output_pipe = make_pipe();

  ChildSetup setup;
  setup.standard_input = input_pipe.read.get();
  setup.standard_output = setup.standard_error = output_pipe.write.get();
  setup.memory_bytes = static_cast<rlim_t>(std::max<std::int64_t>(0, options.memory_limit_bytes));
  setup.cpu_seconds = cpu_backstop(options.timeout_seconds);
  Process process(argv, setup);
  input_pipe.read.close();
  output_pipe.write.close();

  Output output(std::move(output_pipe.read));
  Input input(std::move(input_pipe.write), options.input);
  ProcessResult result;
  while (!process.has_ended()) {
    result.timed_out = deadline.passed();
    if (result.timed_out || options.stop.stop_requested()) {
      process.end();
      break;
    }
    pollfd events[] = {{output.fd(), POLLIN, 0}, {input.fd(), POLLOUT, 0}, {process.pidfd(), POLLIN, 0}};
    wait_for_events(events, 3, deadline, process.pidfd() < 0 || options.stop.stop_possible());
    if (events[0].revents != 0) output.take_available();
    if (events[1].revents != 0) input.feed();
  }
  output.take_available();
  set_end(result, process.status());
  result.output = output.take();
  result.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return result;
}

// ---- Workers
// -------------------------------------------------------------------------------------------------

struct ChildProcess::Impl {
  Impl(const std::vector<std::string>& argv, Pipe to_child, Pipe from_child)
      : process(argv, setup(to_child, from_child)),
        write(std::move(to_child.write)),
        read(std::move(from_child.read)) {
    set_nonblocking(read);
  }

  static ChildSetup setup(const Pipe& to_child, const Pipe& from_child) {
    ChildSetup setup;
    setup.message_read = to_child.read.get();
    setup.message_write = from_child.write.get();
    return setup;
  }

  Process process;
  UniqueFd write;
  UniqueFd read;
  std::string received;  // bytes of messages not yet complete or not yet asked for
};

ChildProcess::ChildProcess(const std::vector<std::string>& argv)
    : impl_(std::make_unique<Impl>(argv, make_pipe(), make_pipe())) {}

ChildProcess::~ChildProcess() = default;

void ChildProcess::send(std::string_view message) {
  if (write_message(impl_->write.get(), message)) return;
  impl_->process.wait(Deadline(1));
  throw EnvironmentError("cannot send to a worker process: " + end_description());
}

ChildProcess::Wait ChildProcess::receive(std::string& message, double timeout_seconds) {
  const Deadline deadline(timeout_seconds);
  for (;;) {
    // In this order: a child that ended can no longer write, so what is drained after that is all there is.
    const bool ended = impl_->process.has_ended();
    const bool open = drain(impl_->read.get(), impl_->received);
    if (take_message(impl_->received, message)) return Wait::message;
    if (ended) return Wait::ended;
    if (!open || is_garbage(impl_->received)) {
      // It closed the pipe, most likely because it is ending: let its own status be known.
      if (open || !impl_->process.wait(Deadline(1))) kill();
      return Wait::ended;
    }
    if (deadline.passed()) return Wait::timeout;
    pollfd events[] = {{impl_->read.get(), POLLIN, 0}, {impl_->process.pidfd(), POLLIN, 0}};
    wait_for_events(events, 2, deadline, impl_->process.pidfd() < 0);
  }
}

void ChildProcess::wait_for_any(std::span<ChildProcess* const> children, double timeout_seconds) {
  std::vector<pollfd> events;
  bool unnoticed_end = false;
  for (ChildProcess* const child : children) {
    events.push_back({child->impl_->read.get(), POLLIN, 0});
    events.push_back({child->impl_->process.pidfd(), POLLIN, 0});
    unnoticed_end = unnoticed_end || child->impl_->process.pidfd() < 0;
  }
  wait_for_events(events.data(), events.size(), Deadline(timeout_seconds), unnoticed_end);
}

void ChildProcess::kill() { impl_->process.end(); }

std::string ChildProcess::end_description() {
  if (!impl_->process.has_ended()) return "still running";
  const int status = impl_->process.status();
  if (!WIFSIGNALED(status)) return "exit code " + std::to_string(WEXITSTATUS(status));
  const int signal = WTERMSIG(status);
  const char* name = ::sigabbrev_np(signal);
  return "signal " + std::to_string(signal) + (name == nullptr ? "" : " (SIG" + std::string(name) + ")");
}

bool read_message(int fd, std::string& message) {
  std::array<char, kMessageHeaderSize> header;
  if (!read_whole(fd, header.data(), header.size())) return false;
  const std::size_t size = message_size(header.data());
  if (size > kMaxMessage) return false;
  // Memory as bytes arrive: a broken length alone must not cost a gigabyte.
  constexpr std::size_t kStep = std::size_t{1} << 20;
  message.clear();
  while (message.size() < size) {
    const std::size_t begin = message.size();
    message.resize(begin + std::min(size - begin, std::max(kStep, begin)));
    if (!read_whole(fd, message.data() + begin, message.size() - begin)) return false;
  }
  return true;
}

bool write_message(int fd, std::string_view message) {
  // One write for small messages: a reader that polls sees them whole.
  std::string bytes = message_header(message.size());
  bytes += message;
  return write_whole(fd, bytes);
}

}  // namespace fusetune::base
