// Files that appear whole or not at all, and the directories fusetune keeps its own files in.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace fusetune::base {

/// The whole file as bytes. Throws EnvironmentError with the path and the reason.
std::string read_file(const std::filesystem::path& path);

/// Replaces `path` by `content`: readers, also in other processes, see the old file or the new one, never a
/// part. Throws EnvironmentError with the path and the reason (no such directory, read-only, disk full); the
/// old file is then intact and no temporary file is left behind. Devices and pipes are
/// written into; of a symbolic link the file behind it is replaced.
void write_file_atomic(const std::filesystem::path& path, std::string_view content);

/// Where compiled kernels and other files that can be made again are kept: $FUSETUNE_CACHE_DIR, else
/// $XDG_CACHE_HOME/fusetune, else ~/.cache/fusetune. Created when missing. Empty when that directory cannot
/// be created or written, or no variable is set: the caller works without a cache, and why is noted once. A
/// relative XDG_CACHE_HOME is ignored, as its specification asks.
std::filesystem::path cache_directory();

/// A new empty directory, private to the user, under $TMPDIR or /tmp; removed with everything in it on
/// destruction.
class TemporaryDirectory {
 public:
  /// Throws EnvironmentError.
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }

  /// Removes those that this process has: before it ends without destroying them.
  static void remove_all() noexcept;

 private:
  std::filesystem::path path_;
};

}  // namespace fusetune::base
