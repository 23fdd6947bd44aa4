// Compiled cubins by key, with what the compiler said about them.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "backend/cuda/cuda_compiler.h"

namespace fusetune::backend::cuda {

struct CubinEntry {
  std::string log;    // the compiler's, whole: registers and spills are read from it
  std::string cubin;  // the image
};

/// A directory of entries, shared by any number of threads and processes:
///
///     cubins/<key>         one file: a hash of the rest, the log, the image
///     compilers/<hash>     each compiler whose images are here: what is needed to find them without it
///     failed/<symbol>.cu   sources that did not compile, for the person who looks into it
///
/// A key covers everything that decides the image (see CubinCompiler). An entry that was cut or changed no
/// longer matches its hash and counts as absent. Everything appears by rename.
class CubinCache {
 public:
  /// `directory` empty: nothing is found and nothing is kept.
  explicit CubinCache(std::filesystem::path directory) : directory_(std::move(directory)) {}

  std::optional<CubinEntry> find(const std::string& key) const;
  /// Where that is impossible, the reason is noted once per process.
  void store(const std::string& key, const CubinEntry& entry) const;
  /// Keeps a compiler's release beside its images, as store() does.
  void state(const CompilerRelease& release) const;
  /// Releases that were stated, the newest first; none where there is no directory.
  std::vector<CompilerRelease> compilers() const;
  /// Saves a source that failed, without a cache in a folder for temporary files; empty when that is
  /// impossible.
  std::filesystem::path save_failed_source(const std::string& symbol, const std::string& text) const;

 private:
  void write(const std::filesystem::path& file, const std::string& text) const;

  std::filesystem::path directory_;
};

}  // namespace fusetune::backend::cuda
