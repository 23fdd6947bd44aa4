// NVIDIA's driver library, opened when it is first needed: fusetune runs without one.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace fusetune::backend::cuda {

/// The library's functions, as <cuda.h> declares them with its enums and its device handle spelled out as
/// int. tests/backend/cuda/declarations_test.cpp compares them with that header.
struct DriverFunctions {
  int (*init)(unsigned int flags) = nullptr;
  int (*driver_get_version)(int* version) = nullptr;  // 1000 major + 10 minor
  int (*device_get_count)(int* count) = nullptr;
  int (*device_get)(int* device, int ordinal) = nullptr;
  int (*device_get_name)(char* name, int bytes, int device) = nullptr;
  int (*device_get_attribute)(int* value, int attribute, int device) = nullptr;
};

/// Values of CUdevice_attribute.
enum class DeviceAttribute : int {
  multiprocessor_count = 16,
  l2_cache_bytes = 38,
  compute_capability_major = 75,
  compute_capability_minor = 76,
  cooperative_launch = 95,
  shared_bytes_per_block_optin = 97,
};

inline constexpr int kDriverSuccess = 0;
inline constexpr int kDriverNoDevice = 100;

/// A GPU as the driver describes it.
struct DriverDevice {
  std::string name;
  int compute_capability = 0;  // times ten: 90
  int multiprocessors = 0;
  int shared_bytes_per_block = 0;  // with the opt-in
  int l2_bytes = 0;
  bool cooperative_launch = false;
};

/// A loaded and initialised driver; it stays loaded for the life of the process.
class Driver {
 public:
  /// Throws base::EnvironmentError when the library cannot be opened, lacks a function, or does not start. No
  /// device is no error.
  explicit Driver(const std::filesystem::path& library = "libcuda.so.1");

  /// "13.0": the newest CUDA that it runs.
  std::string version() const;
  /// Empty when there is none. Throws base::EnvironmentError when the driver refuses to describe one.
  std::vector<DriverDevice> devices() const;

 private:
  DriverFunctions functions_;
  bool has_device_ = false;
};

}  // namespace fusetune::backend::cuda
