#include "measure/device_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"

namespace fusetune::measure {
namespace {

std::string reason() { return std::generic_category().message(errno); }

/// Locking asks for no right to write. So the file of another user will do, and is opened without O_CREAT,
/// which the kernel refuses for files of others in a directory like /tmp.
base::UniqueFd open_lock(const std::filesystem::path& path) {
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW;
  constexpr mode_t kReadableByAll = 0644;
  base::UniqueFd made(::open(path.c_str(), kFlags | O_CREAT | O_EXCL, kReadableByAll));
  if (made) fchmod(made.get(), kReadableByAll);  // whatever the umask
  return made || errno != EEXIST ? std::move(made) : base::UniqueFd(::open(path.c_str(), kFlags));
}

}  // namespace

DeviceLock::DeviceLock(std::string_view device, std::function<void()> poll) : poll_(std::move(poll)) {
  const std::string name = "fusetune-" + std::string(device) + ".lock";
  for (const std::filesystem::path& directory : {std::filesystem::path("/tmp"), base::cache_directory()}) {
    if (directory.empty()) continue;
    path_ = directory / name;
    if (fd_ = open_lock(path_); fd_) return;
  }
  throw base::EnvironmentError("cannot open the lock that keeps two searches from timing at once, '" +
                               path_.string() + "': " + reason());
}

DeviceLock::Hold::~Hold() {
  if (fd_ >= 0) flock(fd_, LOCK_UN);
}

bool DeviceLock::try_take(int operation, std::string_view what) {
  using namespace std::chrono_literals;
  if (flock(fd_.get(), operation | LOCK_NB) == 0) {
    waiting_since_.reset();
    said_ = false;
    return true;
  }
  if (errno != EWOULDBLOCK && errno != EINTR) {
    throw base::EnvironmentError("cannot lock '" + path_.string() + "' for " + std::string(what) + ": " +
                                 reason());
  }
  const auto now = std::chrono::steady_clock::now();
  if (!waiting_since_) waiting_since_ = now;
  if (!said_ && now - *waiting_since_ > 2s) {
    base::note("waiting for another fusetune on this machine before " + std::string(what) + " (" +
               path_.string() + ")");
    said_ = true;
  }
  return false;
}

DeviceLock::Hold DeviceLock::take(int operation, std::string_view what) {
  using namespace std::chrono_literals;
  while (!try_take(operation, what)) {
    if (poll_) poll_();
    std::this_thread::sleep_for(2ms);
  }
  return Hold(fd_.get());
}

std::optional<DeviceLock::Hold> DeviceLock::try_for_timing() {
  if (!try_take(LOCK_EX, "timing")) return std::nullopt;
  return std::optional<Hold>(std::in_place, fd_.get());
}

DeviceLock::Hold DeviceLock::for_timing() { return take(LOCK_EX, "timing"); }
DeviceLock::Hold DeviceLock::for_compiling() { return take(LOCK_SH, "compiling"); }

}  // namespace fusetune::measure
