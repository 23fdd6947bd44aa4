// What the parts of the fake driver share.
#pragma once

#include <filesystem>
#include <string>

namespace fusetune::testing {

enum FakeResult : int {  // values of CUresult
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kDeviceUnavailable = 46,
  kNoDevice = 100,
  kInvalidImage = 200,
  kInvalidContext = 201,
  kNotFound = 500,
  kIllegalAddress = 700,
  kLaunchOutOfResources = 701,
  kLaunchFailed = 719,
  kCooperativeLaunchTooLarge = 720,
  kUnknown = 999,
};

/// $FUSETUNE_FAKE_DRIVER: see fake_driver.cpp.
std::string behaviour();
/// Whether an earlier process lost the device of this handle.
bool is_lost(int device);
std::filesystem::path lost_marker();            // of all devices
std::filesystem::path lost_marker(int device);  // of one
/// How many blocks the first device holds at once: one a multiprocessor.
int resident_blocks();

}  // namespace fusetune::testing
