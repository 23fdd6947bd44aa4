// The devices that a session measures on, all of one kind: the lock and the worker process of each, and which
// of them are lost.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/error.h"
#include "measure/device_lock.h"
#include "measure/session.h"
#include "measure/session_device.h"
#include "measure/worker_process.h"

namespace fusetune::measure {

/// One of them.
struct MeasuringUnit {
  /// `setup` as of WorkerHost; `poll` is called while this device alone is waited for, as WorkerHost and
  /// DeviceLock have it.
  MeasuringUnit(const DeviceInstance& device, const std::filesystem::path& program,
                std::function<WorkerSetup()> setup, const std::function<void()>& poll);

  DeviceUse use;
  DeviceLock lock;
  WorkerHost host;
};

class MeasuringUnits {
 public:
  /// At least one.
  explicit MeasuringUnits(std::vector<std::unique_ptr<MeasuringUnit>> units) : units_(std::move(units)) {}

  /// Those that are not lost, at least one, in the order of the options.
  std::vector<MeasuringUnit*> living() const;
  std::vector<DeviceUse> uses() const;
  /// Until nobody times on any of them.
  std::vector<DeviceLock::Hold> hold_for_compiling() const;

  /// Asks the worker of one and waits for its reply. Throws as WorkerHost::ask() and require_answering() do.
  Exchange ask(MeasuringUnit& unit, Request request, const WorkerHost::Limit& limit) const;
  /// A worker that ended without an answer may have ended with its device. Where another device could take
  /// over, this finds out, by starting the next worker: throws base::EnvironmentError where that fails.
  void require_answering(MeasuringUnit& unit, const Exchange& exchange) const;
  /// Takes a device whose workers can no longer work out of the session, which is said. Call while its error
  /// is handled: the last device stays, and the error goes on.
  void lose(MeasuringUnit& unit, const base::EnvironmentError& error) const;

  /// What `use` does with the first device that is not lost; where that turns out to be lost, with the next.
  template <typename Use>
  auto on_first(const Use& use) const {
    for (;;) {
      MeasuringUnit& unit = *living().front();
      try {
        return use(unit);
      } catch (const base::EnvironmentError& error) {
        lose(unit, error);
      }
    }
  }

 private:
  std::vector<std::unique_ptr<MeasuringUnit>> units_;
};

}  // namespace fusetune::measure
