#include "base/file.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <set>
#include <system_error>

#include "base/error.h"
#include "base/log.h"
#include "base/unique_fd.h"

namespace fusetune::base {

namespace fs = std::filesystem;

namespace {

std::string reason(int error) { return std::generic_category().message(error); }

[[noreturn]] void fail(std::string_view action, const fs::path& path, int error) {
  throw EnvironmentError("cannot " + std::string(action) + " '" + path.string() + "': " + reason(error));
}

// A name in the same directory (rename must not cross file systems) that no other thread or process uses.
fs::path temporary_name(const fs::path& path) {
  static std::atomic<unsigned> counter{0};
  fs::path name = path;
  name += ".tmp." + std::to_string(::getpid()) + "." + std::to_string(counter++);
  return name;
}

// errno of the first failure, 0 when everything reached the disk.
int write_all(int fd, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = ::write(fd, content.data(), content.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return errno;
    }
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  // Without it a power cut may leave the new name with no content.
  return ::fsync(fd) == 0 || errno == EINVAL || errno == EROFS ? 0 : errno;
}

// A rename would put a file in the place of a device or a pipe.
bool must_be_written_in_place(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  return !error && fs::exists(status) && !fs::is_regular_file(status);
}

// The file that is to be replaced: behind a symbolic link, not the link.
fs::path replaced_file(const fs::path& path) {
  std::error_code error;
  if (!fs::is_symlink(path, error)) return path;
  const fs::path target = fs::weakly_canonical(path, error);
  return error ? path : target;
}

// Creates or empties `file` and writes all of it; errno of the first failure, 0 when it is on the disk.
int write_whole(const fs::path& file, std::string_view content) {
  UniqueFd fd(::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!fd) return errno;
  const int error = write_all(fd.get(), content);
  return fd.close() != 0 && error == 0 ? errno : error;  // network file systems report a full disk here
}

}  // namespace

std::string read_file(const fs::path& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) fail("read", path, errno);
  std::string content;
  std::error_code ignored;  // sizes of pipes and /proc files are unknown: the loop does not rely on it
  const auto expected = fs::file_size(path, ignored);
  if (!ignored) content.reserve(static_cast<std::size_t>(expected));
  char buffer[1 << 16];
  for (;;) {
    const ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
    if (got == 0) return content;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("read", path, errno);
    content.append(buffer, static_cast<std::size_t>(got));
  }
}

void write_file_atomic(const fs::path& path, std::string_view content) {
  const bool in_place = must_be_written_in_place(path);
  const fs::path file = in_place ? path : replaced_file(path);
  const fs::path written = in_place ? path : temporary_name(file);
  int error = write_whole(written, content);
  if (!in_place && error == 0 && ::rename(written.c_str(), file.c_str()) != 0) error = errno;
  if (error == 0) return;
  if (!in_place) ::unlink(written.c_str());
  fail("write", path, error);
}

namespace {

std::optional<fs::path> wanted_cache_directory() {
  const auto variable = [](const char* name) -> fs::path {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
  };
  if (const fs::path path = variable("FUSETUNE_CACHE_DIR"); !path.empty()) return fs::absolute(path);
  if (const fs::path path = variable("XDG_CACHE_HOME"); path.is_absolute()) return path / "fusetune";
  if (const fs::path home = variable("HOME"); home.is_absolute()) return home / ".cache" / "fusetune";
  return std::nullopt;
}

// Empty when files can be made in `path`; else why not. Asks by doing: access() is wrong for root on a
// read-only file system and for quotas.
std::string why_not_writable(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return error.message();
  const fs::path probe = temporary_name(path / "probe");
  const UniqueFd fd(::open(probe.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  if (!fd) return reason(errno);
  ::unlink(probe.c_str());
  return {};
}

void note_uncached_once(const std::string& why) {
  static std::atomic_flag said;
  if (said.test_and_set()) return;
  note("note: working without a cache: " + why +
       "; set FUSETUNE_CACHE_DIR to a writable directory to keep one");
}

}  // namespace

fs::path cache_directory() {
  const auto path = wanted_cache_directory();
  if (!path) {
    note_uncached_once("neither FUSETUNE_CACHE_DIR, XDG_CACHE_HOME nor HOME is set");
    return {};
  }
  const std::string why_not = why_not_writable(*path);
  if (why_not.empty()) return *path;
  note_uncached_once("cannot write to '" + path->string() + "': " + why_not);
  return {};
}

namespace {

/// Of this process. Never destroyed: the process may end while they are in use.
struct TemporaryDirectories {
  std::mutex mutex;
  std::set<fs::path> paths;
};
TemporaryDirectories& temporary_directories() {
  static auto& directories = *new TemporaryDirectories;
  return directories;
}

}  // namespace

TemporaryDirectory::TemporaryDirectory() {
  const char* variable = std::getenv("TMPDIR");
  const fs::path parent = variable == nullptr || *variable == '\0' ? "/tmp" : variable;
  std::string name = (fs::absolute(parent) / "fusetune-XXXXXX").string();
  TemporaryDirectories& all = temporary_directories();
  const std::lock_guard lock(all.mutex);  // none is made that remove_all() does not know
  if (::mkdtemp(name.data()) == nullptr) fail("create a temporary directory in", parent, errno);
  path_ = name;
  all.paths.insert(path_);
}

TemporaryDirectory::~TemporaryDirectory() {
  TemporaryDirectories& all = temporary_directories();
  const std::lock_guard lock(all.mutex);
  std::error_code error;
  fs::remove_all(path_, error);
  if (error) note("note: cannot remove '" + path_.string() + "': " + error.message());
  all.paths.erase(path_);
}

void TemporaryDirectory::remove_all() noexcept {
  constexpr int kMostTries = 100;  // other threads may still write into them
  TemporaryDirectories& all = temporary_directories();
  const std::lock_guard lock(all.mutex);
  for (const fs::path& path : all.paths) {
    std::error_code error;
    int tries = 0;
    do {
      fs::remove_all(path, error);
    } while (error && ++tries < kMostTries);
  }
}

}  // namespace fusetune::base
