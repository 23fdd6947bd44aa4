#include "measure/device_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <string>
#include <system_error>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"

namespace fusetune::measure {
namespace {

std::string reason() { return std::generic_category().message(errno); }

std::filesystem::path lock_path(std::string_view device) {
  const std::string name = "fusetune-" + std::string(device);
  const std::filesystem::path cache = base::cache_directory();
  if (!cache.empty()) return cache / (name + ".lock");
  return std::filesystem::path("/tmp") / (name + "-" + std::to_string(getuid()) + ".lock");
}

}  // namespace

DeviceLock::DeviceLock(std::string_view device, std::function<void()> poll)
    : path_(lock_path(device)),
      fd_(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)),
      poll_(std::move(poll)) {
  if (fd_) return;
  throw base::EnvironmentError("cannot open the lock that keeps two searches from timing at once, '" +
                               path_.string() + "': " + reason());
}

DeviceLock::Hold::~Hold() { flock(fd_, LOCK_UN); }

DeviceLock::Hold DeviceLock::take(int operation, std::string_view what) {
  using namespace std::chrono_literals;
  bool said = false;
  const auto start = std::chrono::steady_clock::now();
  while (flock(fd_.get(), operation | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) {
      throw base::EnvironmentError("cannot lock '" + path_.string() + "' for " + std::string(what) + ": " +
                                   reason());
    }
    if (!said && std::chrono::steady_clock::now() - start > 2s) {
      base::note("waiting for another fusetune on this machine before " + std::string(what) + " (" +
                 path_.string() + ")");
      said = true;
    }
    if (poll_) poll_();
    std::this_thread::sleep_for(2ms);
  }
  return Hold(fd_.get());
}

DeviceLock::Hold DeviceLock::for_timing() { return take(LOCK_EX, "timing"); }
DeviceLock::Hold DeviceLock::for_compiling() { return take(LOCK_SH, "compiling"); }

}  // namespace fusetune::measure
