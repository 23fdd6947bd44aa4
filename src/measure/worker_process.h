// The session's side of a worker: starts one when needed, asks, and finds out who was to blame when it ends.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/subprocess.h"
#include "measure/protocol.h"
#include "measure/shared_image.h"

namespace fusetune::measure {

/// What came of a request.
struct Exchange {
  Outcome outcome = Outcome::ok;  // ok: `reply` holds the answer; else crashed or timeout
  std::string message;            // how the worker ended
  int candidate = 0;              // index of the plan that ran then
  Reply reply;
  std::vector<float> output;  // Task::run only
};

class WorkerHost {
 public:
  /// No process is started before the first request. Whenever one is, `setup` says what it is told, but for
  /// `progress`, which is filled in here. `poll`, if any, is called now and then while waiting; when it
  /// throws, the worker is ended.
  WorkerHost(std::filesystem::path program, std::function<WorkerSetup()> setup,
             std::function<void()> poll = {});
  ~WorkerHost();

  /// Limits of one request: the whole of it, or each step that the worker reports.
  struct Limit {
    double seconds = 60;
    bool per_step = false;
  };
  /// Sends `request` and waits for its reply. A worker that crashes or exceeds the limit is an Exchange; a
  /// worker that cannot work at all throws base::EnvironmentError (or InternalError).
  Exchange ask(Request request, const Limit& limit);
  /// ask() in two halves, for several hosts at once: begin() sends, and take() has the answer once there is
  /// one. Neither waits for it, but both may have to start a worker, and throw as ask() does. Nobody polls
  /// meanwhile.
  void begin(Request request, const Limit& limit);
  std::optional<Exchange> take();
  /// Waits until take() may have something to say for one of `hosts`, which all have begun, or for so long.
  static void wait_for_any(std::span<WorkerHost* const> hosts, double seconds);
  /// Starts the worker where none runs, as the next request would. Throws base::EnvironmentError where it
  /// does not start or cannot use its device.
  void start();
  /// Samples of comparisons that workers have reported so far.
  std::uint64_t samples() const { return progress().samples; }
  /// Ends the worker: its memory may have been damaged. The next request starts another.
  void retire();

 private:
  /// A request that was sent.
  struct Pending {
    Request request;
    Limit limit;
    int attempts = 0;
    std::uint64_t steps = 0;  // that workers had reported when the limit began
    std::chrono::steady_clock::time_point since = {};
  };

  void set_up();
  bool send(const Request& request);
  void dispatch(Pending pending);
  double seconds_left();
  void poll();
  Exchange receive(const Request& request, const Limit& limit);
  Exchange understand(const Request& request, const std::string& message, const Limit& limit);
  base::ChildProcess::Wait wait(std::string& message, const Limit& limit);
  std::vector<float> receive_output(const Limit& limit);
  Exchange ended(base::ChildProcess::Wait wait, const Limit& limit);
  bool began(const Request& request) const { return progress().request == request.number; }
  Progress& progress() const { return *reinterpret_cast<Progress*>(page_.data()); }

  std::filesystem::path program_;
  std::function<WorkerSetup()> make_setup_;
  WorkerSetup setup_;  // of the last worker
  std::function<void()> poll_;
  SharedMemory page_;
  std::unique_ptr<base::ChildProcess> child_;
  std::optional<Pending> pending_;
  std::uint64_t requests_ = 0;
};

}  // namespace fusetune::measure
