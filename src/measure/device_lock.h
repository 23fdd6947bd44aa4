// One lock per device and machine: while one fusetune times, no other times or compiles.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>

#include "base/unique_fd.h"

namespace fusetune::measure {

/// The device that is this machine's CPU.
inline constexpr std::string_view kCpuDevice = "cpu";

class DeviceLock {
 public:
  /// Opens /tmp/fusetune-<device>.lock, which is one for all users and caches, or a file of that name in
  /// the cache directory where /tmp cannot be used. Throws base::EnvironmentError.
  /// `poll`, if any, is called while waiting and may throw to give up.
  explicit DeviceLock(std::string_view device, std::function<void()> poll = {});

  /// Held until destroyed.
  class Hold {
   public:
    explicit Hold(int fd) : fd_(fd) {}
    ~Hold();
    Hold(Hold&& from) noexcept : fd_(std::exchange(from.fd_, -1)) {}
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    int fd_;
  };

  /// Waits until nobody else times or compiles; says so when that takes a while.
  Hold for_timing();
  /// for_timing() where that need not wait, else nothing: to be asked again, which says so after a while too.
  std::optional<Hold> try_for_timing();
  /// Waits until nobody times; others may compile at the same moment.
  Hold for_compiling();

 private:
  Hold take(int operation, std::string_view what);
  bool try_take(int operation, std::string_view what);

  std::filesystem::path path_;
  base::UniqueFd fd_;
  std::function<void()> poll_;
  std::optional<std::chrono::steady_clock::time_point> waiting_since_;  // nullopt: the last try succeeded
  bool said_ = false;                                                   // in this wait
};

}  // namespace fusetune::measure
