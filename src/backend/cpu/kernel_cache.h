// Compiled libraries by content, and which library holds which kernel.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/file.h"

namespace fusetune::backend::cpu {

/// A directory of compiled kernels, shared by any number of threads and processes:
///
///     libraries/<hash of the content>.so   one translation unit's kernels; the name proves the content
///     kernels/<key>                        symbolic link to the library that holds the kernel of that key
///     failed/<symbol>.cpp                  sources that did not compile, for the person who looks into it
///
/// A key covers everything that decides the machine code (see KernelCompiler). A library that was truncated
/// or overwritten no longer matches its name and counts as absent. Everything appears by rename.
///
/// Where the directory cannot be written, new files go to a temporary directory that lives as long as this
/// object, and the reason is noted once per process; kernels that are already in it are still found.
class KernelCache {
 public:
  /// `directory` empty: temporary only, without a note. Throws base::EnvironmentError when there is no place
  /// for temporary files either.
  explicit KernelCache(const std::filesystem::path& directory);

  /// The intact library that holds the kernel of `key`.
  std::optional<std::filesystem::path> find(const std::string& key);
  /// A library is there under the kernel's key; its content is not read, which find() does.
  bool contains(const std::string& key);
  /// Stores a library's bytes and returns its path. Throws base::EnvironmentError when it can be written
  /// nowhere.
  std::filesystem::path store_library(std::string_view content);
  /// Records that `library` (from store_library) holds the kernel of `key`.
  void link_kernel(const std::string& key, const std::filesystem::path& library);
  /// Saves a source that failed where it outlives this object; empty when that is impossible.
  std::filesystem::path save_failed_source(const std::string& symbol, std::string_view source);

 private:
  void fall_back(const std::string& reason);

  std::mutex mutex_;
  base::TemporaryDirectory temporary_;
  std::filesystem::path readable_;                       // the given directory; empty: none
  std::filesystem::path writable_;                       // it, or the temporary directory
  std::map<std::string, std::filesystem::path> linked_;  // kernels stored by this object
};

}  // namespace fusetune::backend::cpu
