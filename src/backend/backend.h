// What every backend can say about itself, and the table of backends: behind `devices` and `doctor`.
//
// Compiling is DeviceCompiler's business (compiled_kernel.h), running and timing an Executor's (executor.h).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fusetune::backend {

/// One device of a backend, for people: "AMD EPYC" with {"cpus", "2"}, {"isa", "avx2"}, ...
struct Device {
  std::string name;
  std::vector<std::pair<std::string, std::string>> properties;
};

/// One thing that a backend needs, or profits from, and how it stands.
struct Check {
  enum class Status { ok, warning, missing };  // warning: works, but slower or with less
  std::string what;                            // "C++ compiler"
  Status status = Status::ok;
  std::string detail;  // what was found, or why it fails
  std::string remedy;  // what to do; empty for ok
};

struct DiagnoseOptions {
  std::string cxx;  // --cxx; empty: find one
};

class Backend {
 public:
  virtual ~Backend() = default;
  /// Probes the machine now; empty when there is no device.
  virtual std::vector<Device> devices() const = 0;
  /// Tries everything the backend needs, up to running a small kernel. Never throws for what is missing.
  virtual std::vector<Check> diagnose(const DiagnoseOptions& options) const = 0;
};

/// A row of the backend table.
struct BackendInfo {
  std::string_view name;
  std::string_view description;
  std::unique_ptr<Backend> (*make)();
};
std::span<const BackendInfo> backends();

/// Throws base::UsageError for an unknown name, with the nearest.
std::unique_ptr<Backend> make_backend(std::string_view name);

}  // namespace fusetune::backend
