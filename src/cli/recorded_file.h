// Recorded measurements in whatever form: a database, or the JSON lines that `db export` writes, compressed
// by gzip or not.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/file.h"

namespace fusetune::cli {

/// Its text, unpacked where it is compressed. Throws base::EnvironmentError where it cannot be read.
std::string read_unpacked(const std::string& file);

/// It is no database but JSON lines of records, by its first bytes. False where it cannot be read.
bool is_recorded_lines(const std::string& file);

/// A database for as long as this lives.
class RecordedFile {
 public:
  /// JSON lines are imported into a temporary database. Throws base::UsageError, "file:line: what, why", for
  /// bad ones.
  explicit RecordedFile(const std::string& file);
  const std::filesystem::path& database() const { return database_; }

 private:
  std::optional<base::TemporaryDirectory> directory_;
  std::filesystem::path database_;
};

}  // namespace fusetune::cli
