// A stand-in for NVIDIA's driver: here its devices, in fake_driver_launch.cpp memory and launches.
//
// $FUSETUNE_FAKE_DRIVER: "none" has no device, "broken" does not start, "small" has one device with few
// multiprocessors, "pair" two such, "odd" two of which the second is another model, "faulting" reports an
// illegal address after any launch, "hanging" never ends one (both with the small device); otherwise there
// are two large devices.
//
// $FUSETUNE_FAKE_FAULTS: faults of single kernels, "illegal:segment_3_4_ hang:segment_5_5_": what befalls
// those with such a part in their name. illegal, launch: an error that stays, at the next call; memory: not
// enough to load it; resources: its launch is refused; hang: it never ends; slow: each run takes 5 ms more;
// lost: the devices are gone, for every process from then on; lost0, lost1: the first or second is, when it
// runs such a kernel.
#include "fake_driver.h"

#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace fusetune::testing {

std::string behaviour() {
  const char* value = std::getenv("FUSETUNE_FAKE_DRIVER");
  return value == nullptr ? "" : value;
}

std::filesystem::path lost_marker() {
  const char* folder = std::getenv("FUSETUNE_FAKE_KERNELS");
  return folder == nullptr ? std::filesystem::path() : std::filesystem::path(folder) / "lost";
}
std::filesystem::path lost_marker(int device) { return lost_marker().concat("-" + std::to_string(device)); }
bool is_lost(int device) {
  return !lost_marker().empty() &&
         (std::filesystem::exists(lost_marker()) || std::filesystem::exists(lost_marker(device)));
}
bool is_first_model(int device) { return device == 40 || behaviour() == "pair"; }

int resident_blocks() { return behaviour().empty() ? 132 : 4; }

}  // namespace fusetune::testing

using namespace fusetune::testing;

extern "C" {

int cuInit(unsigned int /*flags*/) {
  if (behaviour() == "none") return kNoDevice;
  return behaviour() == "broken" ? kUnknown : kSuccess;
}
int cuDriverGetVersion(int* version) {
  *version = 13020;
  return kSuccess;
}
int cuGetErrorName(int error, const char** name) {
  *name = error == kIllegalAddress ? "CUDA_ERROR_ILLEGAL_ADDRESS" : nullptr;
  return *name == nullptr ? kInvalidValue : kSuccess;
}
int cuGetErrorString(int error, const char** text) {
  *text = error == kIllegalAddress ? "an illegal memory access was encountered" : nullptr;
  return *text == nullptr ? kInvalidValue : kSuccess;
}
int cuDeviceGetCount(int* count) {
  *count = behaviour().empty() || behaviour() == "pair" || behaviour() == "odd" ? 2 : 1;
  return kSuccess;
}
int cuDeviceGet(int* device, int ordinal) {
  *device = 40 + ordinal;
  return kSuccess;
}
int cuDeviceGetName(char* name, int bytes, int device) {
  std::strncpy(name, is_first_model(device) ? "Fake H100" : "Fake A100", static_cast<std::size_t>(bytes));
  return kSuccess;
}
int cuDeviceGetUuid_v2(char* uuid, int device) {
  for (int i = 0; i < 16; ++i) uuid[i] = static_cast<char>(16 * (device - 40) + i);
  return kSuccess;
}
int cuDeviceTotalMem_v2(std::size_t* bytes, int /*device*/) {
  *bytes = std::size_t{8} << 30;
  return kSuccess;
}
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  switch (attribute) {
    case 13:
      *value = 1'980'000;
      return kSuccess;
    case 16:
      *value = is_first_model(device) ? resident_blocks() : 108;
      return kSuccess;
    case 36:
      *value = 2'619'000;
      return kSuccess;
    case 38:
      *value = 50 << 20;
      return kSuccess;
    case 75:
      *value = is_first_model(device) ? 9 : 8;
      return kSuccess;
    case 76:
      *value = 0;
      return kSuccess;
    case 95:
      *value = 1;
      return kSuccess;
    case 97:
      *value = is_first_model(device) ? 227 << 10 : 163 << 10;
      return kSuccess;
    default:
      return kInvalidValue;
  }
}

}  // extern "C"
