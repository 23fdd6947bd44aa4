#include "backend/cpu/kernel_cache.h"

#include <unistd.h>

#include <atomic>
#include <system_error>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"

namespace fusetune::backend::cpu {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLibraries = "libraries";
constexpr const char* kKernels = "kernels";
constexpr const char* kFailed = "failed";

/// Makes the directory's parts and proves that files can be created; empty, or the reason why not. Trying is
/// the only reliable test: permission bits say nothing about read-only mounts or quotas.
std::string why_not_writable(const fs::path& directory) {
  std::error_code error;
  for (const char* part : {kLibraries, kKernels}) {
    fs::create_directories(directory / part, error);
    if (error) return error.message();
  }
  const fs::path probe = directory / kKernels / (".probe." + std::to_string(getpid()));
  fs::remove(probe, error);
  fs::create_symlink("nothing", probe, error);  // some file systems have no symbolic links
  if (error) return error.message();
  fs::remove(probe, error);
  return {};
}

void note_once(const std::string& line) {
  static std::atomic_flag said;
  if (!said.test_and_set()) base::note(line);
}

bool intact(const fs::path& library) {
  try {
    return base::hash_hex(base::read_file(library)) == library.stem().string();
  } catch (const base::EnvironmentError&) {  // missing or unreadable: compile again
    return false;
  }
}

fs::path unique_sibling(const fs::path& path) {
  static std::atomic<unsigned> counter{0};
  fs::path sibling = path;
  sibling += ".tmp." + std::to_string(getpid()) + "." + std::to_string(counter++);
  return sibling;
}

}  // namespace

KernelCache::KernelCache(const fs::path& directory) : readable_(directory) {
  if (!directory.empty()) {
    const std::string reason = why_not_writable(directory);
    if (reason.empty()) {
      writable_ = directory;
      return;
    }
    fall_back(reason);
    return;
  }
  fall_back({});
}

void KernelCache::fall_back(const std::string& reason) {
  if (!reason.empty()) {
    note_once("note: compiled kernels are not kept: cannot write to '" + readable_.string() + "': " + reason +
              "; set FUSETUNE_CACHE_DIR to a writable directory to keep them");
  }
  writable_ = temporary_.path();
  const std::string why_not = why_not_writable(writable_);
  if (!why_not.empty()) {
    throw base::EnvironmentError("cannot keep compiled kernels in '" + writable_.string() + "': " + why_not +
                                 "; set TMPDIR to a directory with free space");
  }
}

std::optional<fs::path> KernelCache::find(const std::string& key) {
  const std::lock_guard lock(mutex_);
  if (const auto known = linked_.find(key); known != linked_.end() && intact(known->second))
    return known->second;
  if (readable_.empty()) return std::nullopt;
  std::error_code error;
  const fs::path target = fs::read_symlink(readable_ / kKernels / key, error);
  if (error) return std::nullopt;
  const fs::path library = readable_ / kLibraries / target.filename();
  if (!intact(library)) return std::nullopt;
  return library;
}

bool KernelCache::contains(const std::string& key) {
  const std::lock_guard lock(mutex_);
  if (linked_.contains(key)) return true;
  std::error_code ignored;
  return !readable_.empty() && fs::exists(readable_ / kKernels / key, ignored);
}

fs::path KernelCache::store_library(std::string_view content) {
  const std::string name = base::hash_hex(content) + ".so";
  const std::lock_guard lock(mutex_);
  fs::path library = writable_ / kLibraries / name;
  try {
    base::write_file_atomic(library, content);
  } catch (const base::EnvironmentError& error) {
    if (writable_ == temporary_.path()) throw;
    fall_back(error.what());  // the disk filled up, or the directory was removed
    library = writable_ / kLibraries / name;
    base::write_file_atomic(library, content);
  }
  return library;
}

void KernelCache::link_kernel(const std::string& key, const fs::path& library) {
  const std::lock_guard lock(mutex_);
  linked_[key] = library;
  if (library.parent_path().parent_path() != readable_) return;
  const fs::path link = readable_ / kKernels / key;
  const fs::path temporary = unique_sibling(link);
  std::error_code error;
  fs::create_symlink(fs::path("..") / kLibraries / library.filename(), temporary, error);
  if (!error) fs::rename(temporary, link, error);
  if (error) {  // this process knows the kernel all the same; the next one compiles it again
    std::error_code ignored;
    fs::remove(temporary, ignored);
  }
}

fs::path KernelCache::save_failed_source(const std::string& symbol, std::string_view source) {
  const std::lock_guard lock(mutex_);
  const bool cached = writable_ != temporary_.path();
  const fs::path directory =
      cached ? writable_ / kFailed
             : temporary_.path().parent_path() / ("fusetune-failed-" + std::to_string(geteuid()));
  std::error_code error;
  fs::create_directories(directory, error);
  try {
    fs::path file = directory / (symbol + ".cpp");
    base::write_file_atomic(file, source);
    return file;
  } catch (const base::EnvironmentError&) {
    return {};
  }
}

}  // namespace fusetune::backend::cpu
