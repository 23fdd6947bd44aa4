// The session's side of a worker: starts one when needed, asks, and finds out who was to blame when it ends.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
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
  /// `setup.progress` is filled in here. No process is started before the first request. `poll`, if any, is
  /// called now and then while waiting; when it throws, the worker is ended.
  WorkerHost(std::filesystem::path program, WorkerSetup setup, std::function<void()> poll = {});
  ~WorkerHost();

  /// Limits of one request: the whole of it, or each step that the worker reports.
  struct Limit {
    double seconds = 60;
    bool per_step = false;
  };
  /// Sends `request` and waits for its reply. A worker that crashes or exceeds the limit is an Exchange; a
  /// worker that cannot work at all throws base::EnvironmentError (or InternalError).
  Exchange ask(Request request, const Limit& limit);
  /// Steps that workers have reported so far.
  std::uint64_t steps() const { return progress().steps; }
  /// Ends the worker: its memory may have been damaged. The next request starts another.
  void retire();

 private:
  void start();
  void set_up();
  bool send(const Request& request);
  Exchange receive(const Request& request, const Limit& limit);
  base::ChildProcess::Wait wait(std::string& message, const Limit& limit);
  base::ChildProcess::Wait wait_polling(std::string& message, double seconds);
  std::vector<float> receive_output(const Limit& limit);
  Exchange ended(base::ChildProcess::Wait wait, const Limit& limit);
  bool began(const Request& request) const { return progress().request == request.number; }
  Progress& progress() const { return *reinterpret_cast<Progress*>(page_.data()); }

  std::filesystem::path program_;
  WorkerSetup setup_;
  std::function<void()> poll_;
  SharedMemory page_;
  std::unique_ptr<base::ChildProcess> child_;
  std::uint64_t requests_ = 0;
};

}  // namespace fusetune::measure
