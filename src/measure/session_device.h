// What a session knows of its device: the target that kernels are generated for, their compiler, and the
// facts that make measurements comparable.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/compiled_kernel.h"
#include "backend/executor.h"
#include "measure/session.h"

namespace fusetune::measure {

/// What tells the devices of a session apart, which are of one kind.
struct DeviceInstance {
  std::string name;                   // "GPU 1", "CPU"
  std::string uuid;                   // of a GPU
  std::string lock;                   // name of its DeviceLock
  backend::ExecutorOptions executor;  // of a worker; rotation and flush are the session's to say
};

struct SessionDevice {
  lower::Target target;
  Environment environment;
  std::unique_ptr<backend::DeviceCompiler> compiler;
  std::int64_t cache_bytes = 0;           // of the last level
  std::vector<DeviceInstance> instances;  // at least one
};

/// Probes the device that the options ask for; no context of it is made in this process. Throws
/// base::UsageError for what the device cannot do and for devices that are not of one kind, and
/// base::EnvironmentError where there is none, or nothing to compile with.
SessionDevice open_device(const block::Problem& problem, const SessionOptions& options);

}  // namespace fusetune::measure
