// One SQLite file, opened, recognised and brought to the newest schema. Internal to store: SQLiteCpp's header
// is included only by .cpp files, so this one names its types without defining them.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/file.h"
#include "store/schema.h"
#include "store/tuning_store.h"

namespace SQLite {
class Database;
}

namespace fusetune::store {

class Connection {
 public:
  /// Opens (or creates, as `options.access` says) and migrates. Throws base::EnvironmentError: foreign,
  /// damaged or truncated file, newer schema, read-only directory, full disk; the file is then as it was.
  Connection(const std::filesystem::path& path, const StoreOptions& options);
  ~Connection();
  Connection(Connection&&) noexcept;
  Connection& operator=(Connection&&) noexcept;

  const std::filesystem::path& path() const { return path_; }
  const std::string& journal_mode() const { return journal_mode_; }

  /// Runs `work` and translates SQLite's errors: `doing` completes "… to/from FILE", e.g. "saving a
  /// measurement".
  void reading(std::string_view doing, const std::function<void(SQLite::Database&)>& work) const;
  /// The same inside one BEGIN IMMEDIATE transaction: all of it or nothing. It takes the write lock before it
  /// reads, so it waits (busy timeout) where a read-then-write would fail at once.
  void writing(std::string_view doing, const std::function<void(SQLite::Database&)>& work) const;
  /// The same, but nothing of what it did stays.
  void trying(std::string_view doing, const std::function<void(SQLite::Database&)>& work) const;

 private:
  /// The file that SQLite shall open: the user's or a copy of it.
  std::filesystem::path file_to_open(const StoreOptions& options);
  void open(const StoreOptions& options);
  void recognise(std::span<const Migration> all) const;
  void choose_journal(const StoreOptions& options);
  void migrate(std::span<const Migration> all);

  std::filesystem::path path_;                           // the user's
  std::unique_ptr<base::TemporaryDirectory> copied_to_;  // where only a copy is looked at
  std::unique_ptr<SQLite::Database> database_;
  std::string journal_mode_;
};

}  // namespace fusetune::store
