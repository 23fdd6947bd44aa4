#include "backend/cuda/driver.h"

#include <dlfcn.h>

#include <array>

#include "base/error.h"

namespace fusetune::backend::cuda {
namespace {

template <class Function>
void find_function(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  if (function == nullptr)
    throw base::EnvironmentError(std::string("NVIDIA's driver library has no function ") + name);
}

void check(int result, const char* what) {
  if (result != kDriverSuccess) {
    throw base::EnvironmentError(std::string("NVIDIA's driver: ") + what + " failed with error " +
                                 std::to_string(result));
  }
}

}  // namespace

Driver::Driver(const std::filesystem::path& library) {
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);  // never closed
  if (handle == nullptr) {
    const char* reason = dlerror();
    throw base::EnvironmentError("cannot open NVIDIA's driver library: " +
                                 std::string(reason == nullptr ? library.c_str() : reason));
  }
  find_function(handle, "cuInit", functions_.init);
  find_function(handle, "cuDriverGetVersion", functions_.driver_get_version);
  find_function(handle, "cuDeviceGetCount", functions_.device_get_count);
  find_function(handle, "cuDeviceGet", functions_.device_get);
  find_function(handle, "cuDeviceGetName", functions_.device_get_name);
  find_function(handle, "cuDeviceGetAttribute", functions_.device_get_attribute);
  const int result = functions_.init(0);
  if (result != kDriverNoDevice) check(result, "cuInit");
  has_device_ = result == kDriverSuccess;
}

std::string Driver::version() const {
  int version = 0;
  check(functions_.driver_get_version(&version), "cuDriverGetVersion");
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::vector<DriverDevice> Driver::devices() const {
  std::vector<DriverDevice> devices;
  if (!has_device_) return devices;
  int count = 0;
  check(functions_.device_get_count(&count), "cuDeviceGetCount");
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    int handle = 0;
    check(functions_.device_get(&handle, ordinal), "cuDeviceGet");
    std::array<char, 256> name = {};
    check(functions_.device_get_name(name.data(), int{name.size()}, handle), "cuDeviceGetName");
    const auto attribute = [&](DeviceAttribute which) {
      int value = 0;
      check(functions_.device_get_attribute(&value, static_cast<int>(which), handle), "cuDeviceGetAttribute");
      return value;
    };
    name.back() = '\0';
    devices.push_back({.name = name.data(),
                       .compute_capability = 10 * attribute(DeviceAttribute::compute_capability_major) +
                                             attribute(DeviceAttribute::compute_capability_minor),
                       .multiprocessors = attribute(DeviceAttribute::multiprocessor_count),
                       .shared_bytes_per_block = attribute(DeviceAttribute::shared_bytes_per_block_optin),
                       .l2_bytes = attribute(DeviceAttribute::l2_cache_bytes),
                       .cooperative_launch = attribute(DeviceAttribute::cooperative_launch) != 0});
  }
  return devices;
}

}  // namespace fusetune::backend::cuda
