#include "store/database.h"

#include <SQLiteCpp/Backup.h>
#include <SQLiteCpp/SQLiteCpp.h>
#include <sqlite3.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <system_error>
#include <thread>

#include "base/error.h"
#include "base/log.h"

namespace fusetune::store {
namespace {

constexpr std::string_view kMagic("SQLite format 3\0", 16);
constexpr std::size_t kHeaderBytes = 100;

/// What an SQLite error means for the person who has to do something about it.
std::string advice(int code, const std::filesystem::path& path) {
  const std::string directory = path.has_parent_path() ? path.parent_path().string() : ".";
  switch (code & 0xff) {
    case SQLITE_FULL:
      return "the disk (or quota) is full: free some space; what was saved before is intact";
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return "no permission to write the file or its directory " + directory +
             ": change the permissions or choose another file with --db";
    case SQLITE_CANTOPEN:
      return "the file cannot be opened or created: check that " + directory +
             " exists and may be written, or choose another file with --db";
    case SQLITE_NOTADB:
      return "this is not a fusetune database: choose another file with --db";
    case SQLITE_CORRUPT:
      return "the file is damaged or truncated: move it away (a new one is made), or restore a copy";
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return "another process has been writing to it for too long: try again, or choose another file with "
             "--db";
    case SQLITE_IOERR:
      return "the disk reported an error (is it full?); what was saved before is intact";
    default:
      return "run `fusetune db check --db " + path.string() + "`";
  }
}

[[noreturn]] void fail(std::string_view doing, const std::filesystem::path& path,
                       const SQLite::Exception& error) {
  const int code = error.getErrorCode();
  const std::string what = std::string(doing) + " the tuning database " + path.string() + ": " + error.what();
  // A violated constraint means that fusetune tried to store what it must not: our bug, not the machine's.
  if ((code & 0xff) == SQLITE_CONSTRAINT || (code & 0xff) == SQLITE_MISUSE) throw base::InternalError(what);
  if ((code & 0xff) == SQLITE_CORRUPT) throw DamagedFile(what + "; " + advice(code, path));
  throw base::EnvironmentError(what + "; " + advice(code, path));
}

base::EnvironmentError refusal(const std::filesystem::path& path, const std::string& why) {
  return base::EnvironmentError("opening the tuning database " + path.string() + ": " + why);
}

DamagedFile damage(const std::filesystem::path& path, const std::string& found) {
  return DamagedFile("opening the tuning database " + path.string() + ": " + found + "; " +
                     advice(SQLITE_CORRUPT, path));
}

std::int64_t pragma(SQLite::Database& database, const char* name) {
  return database.execAndGet(std::string("PRAGMA ") + name).getInt64();
}

bool is_busy(const SQLite::Exception& error) { return (error.getErrorCode() & 0xff) == SQLITE_BUSY; }

/// SQLite answers "busy" at once, whatever the busy timeout, where waiting could deadlock (changing the
/// journal mode, recovering a log). Nothing is held here, so waiting is safe.
template <typename Work>
auto patiently(int timeout_ms, const Work& work) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  while (true) {
    try {
      return work();
    } catch (const SQLite::Exception& error) {
      if (!is_busy(error) || std::chrono::steady_clock::now() > deadline) throw;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
}

std::filesystem::path beside(const std::filesystem::path& file, const char* suffix) {
  return file.string() + suffix;
}

void copy_files(const std::filesystem::path& from, const std::filesystem::path& to) {
  try {
    for (const char* suffix : {"", "-wal", "-journal"}) {
      if (std::filesystem::exists(beside(from, suffix)))
        std::filesystem::copy_file(beside(from, suffix), beside(to, suffix),
                                   std::filesystem::copy_options::overwrite_existing);
    }
  } catch (const std::filesystem::filesystem_error& error) {
    throw base::EnvironmentError("copying the tuning database " + from.string() + ": " + error.what());
  }
  std::filesystem::permissions(to, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

/// From the file's header: it is written through a log beside it.
bool has_log(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::string header(kHeaderBytes, '\0');
  stream.read(header.data(), static_cast<std::streamsize>(header.size()));
  return header[18] == 2;  // "file format write version"
}

/// A consistent copy that leaves `from` and its directory as they are. Where processes may have the file
/// open, SQLite takes part in their locks; a log that nobody has open is copied with its file, because
/// reading it in place would write beside it.
void copy_database(const std::filesystem::path& from, const std::filesystem::path& to, int timeout_ms) {
  const bool in_use = !has_log(from) || std::filesystem::exists(beside(from, "-shm"));
  if (in_use) {
    try {
      SQLite::Database source(from.string(), SQLite::OPEN_READONLY, timeout_ms);
      SQLite::Database target(to.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
      SQLite::Backup(target, source).executeStep(-1);
      return;
    } catch (const SQLite::Exception&) {
      // A log that may not be shared from here. Damage is found, and named, when the copy is opened.
      std::filesystem::remove(to);
    }
  }
  copy_files(from, to);
}

}  // namespace

Connection::Connection(const std::filesystem::path& path, const StoreOptions& options) : path_(path) {
  const std::span<const Migration> all = options.migrations.empty() ? migrations() : options.migrations;
  try {
    open(options);
    patiently(options.busy_timeout_ms, [&] { recognise(all); });
    choose_journal(options);
    patiently(options.busy_timeout_ms, [&] { migrate(all); });
  } catch (const SQLite::Exception& error) {
    fail("opening", path_, error);
  }
}

Connection::~Connection() = default;
Connection::Connection(Connection&&) noexcept = default;
Connection& Connection::operator=(Connection&&) noexcept = default;

std::filesystem::path Connection::file_to_open(const StoreOptions& options) {
  // SQLite would take these for a database that vanishes when it is closed.
  if (path_.empty() || path_ == ":memory:")
    throw base::UsageError("--db '" + path_.string() + "': expected the name of a file");
  std::error_code ignored;
  const bool exists = std::filesystem::exists(path_, ignored);
  if (std::filesystem::is_directory(path_, ignored)) throw refusal(path_, "this is a directory, not a file");
  const bool must_exist = options.access != Access::create;
  if (!exists && must_exist) {
    throw refusal(path_, "there is no such file; `fusetune search` makes one, --db names another");
  }
  const std::filesystem::path directory = path_.has_parent_path() ? path_.parent_path() : ".";
  if (!std::filesystem::is_directory(directory, ignored)) {
    throw refusal(
        path_, "the directory " + directory.string() + " does not exist: make it, or name another with --db");
  }
  // SQLite would open a file that may not be written for reading only and fail in the middle of a search. It
  // also needs the directory, for its log.
  bool copied = options.access == Access::copy;
  if (access(directory.c_str(), W_OK) != 0 || (exists && access(path_.c_str(), W_OK) != 0)) {
    const std::string why = std::strerror(errno);
    if (options.access == Access::create || options.access == Access::existing)
      throw refusal(path_, why + "; " + advice(SQLITE_READONLY, path_));
    if (options.access == Access::look)
      base::note("note: " + path_.string() + " may not be written (" + why + "): looking at a copy");
    copied = true;
  }
  const bool empty = exists && std::filesystem::file_size(path_, ignored) == 0;
  if (empty && must_exist)
    throw refusal(path_, "the file is empty; `fusetune search` makes a database of it, --db names another");
  if (exists && !empty) {
    std::ifstream file(path_, std::ios::binary);
    if (!file) throw refusal(path_, std::strerror(errno));
    std::string header(kHeaderBytes, '\0');
    file.read(header.data(), static_cast<std::streamsize>(header.size()));
    if (!header.starts_with(kMagic)) throw refusal(path_, advice(SQLITE_NOTADB, path_));
    if (file.gcount() < static_cast<std::streamsize>(kHeaderBytes))
      throw damage(path_, "the file ends within its header");
  }
  if (!copied) return path_;
  copied_to_ = std::make_unique<base::TemporaryDirectory>();
  copy_database(path_, copied_to_->path() / "copy.db", options.busy_timeout_ms);
  return copied_to_->path() / "copy.db";
}

void Connection::open(const StoreOptions& options) {
  database_ = std::make_unique<SQLite::Database>(file_to_open(options).string(),
                                                 SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE,
                                                 options.busy_timeout_ms, options.vfs);
  database_->exec("PRAGMA foreign_keys = ON");
  if (options.maximum_pages > 0)
    database_->exec("PRAGMA max_page_count = " + std::to_string(options.maximum_pages));
}

void Connection::recognise(std::span<const Migration> all) const {
  // One transaction, so that all answers are of one state: another process may be making the file just now.
  const SQLite::Transaction snapshot(*database_);
  const std::int64_t application = pragma(*database_, "application_id");
  const bool empty = database_->execAndGet("SELECT count(*) FROM sqlite_master").getInt64() == 0;
  if (application != kApplicationId && !(application == 0 && empty)) {
    throw refusal(path_,
                  "this is another program's SQLite file, not fusetune's: choose another file with --db");
  }
  const std::int64_t version = pragma(*database_, "user_version");
  if (version > all.back().version) {
    throw refusal(path_, "its schema is version " + std::to_string(version) +
                             ", this fusetune knows up to version " + std::to_string(all.back().version) +
                             ": use the newer fusetune that wrote it, or another file with --db");
  }
  // A truncated or damaged file is found here, not in the middle of a search.
  const std::string found = database_->execAndGet("PRAGMA quick_check(1)").getString();
  if (found != "ok") throw damage(path_, found);
}

void Connection::choose_journal(const StoreOptions& options) {
  const auto current = [&] { return database_->execAndGet("PRAGMA journal_mode").getString(); };
  journal_mode_ = patiently(options.busy_timeout_ms, current);
  if (journal_mode_ != "wal") {
    try {
      journal_mode_ = patiently(options.busy_timeout_ms, [&] {
        return database_->execAndGet("PRAGMA journal_mode = WAL").getString();
      });
      current();  // file systems without shared memory may only say so at the first use
    } catch (const SQLite::Exception& error) {
      if (is_busy(error)) throw;
      journal_mode_ = database_->execAndGet("PRAGMA journal_mode = DELETE").getString();
    }
  }
  // FULL: each commit reaches the disk, so that after a power cut the candidate that ran is known.
  database_->exec("PRAGMA synchronous = FULL");
  if (journal_mode_ == "wal") return;
  static bool said = false;
  if (!said) {
    base::note("note: " + path_.string() + ": its file system has no write-ahead log, using journal mode `" +
               journal_mode_ + "` (slower where several searches share the file)");
  }
  said = true;
}

void Connection::migrate(std::span<const Migration> all) {
  if (pragma(*database_, "user_version") == all.back().version) return;
  SQLite::Transaction transaction(*database_, SQLite::TransactionBehavior::IMMEDIATE);
  // Read again under the lock: another process may have migrated meanwhile.
  const std::int64_t version = pragma(*database_, "user_version");
  for (const Migration& migration : all) {
    if (migration.version > version) database_->exec(std::string(migration.sql));
  }
  database_->exec("PRAGMA application_id = " + std::to_string(kApplicationId));
  database_->exec("PRAGMA user_version = " + std::to_string(all.back().version));
  transaction.commit();
}

void Connection::reading(std::string_view doing, const std::function<void(SQLite::Database&)>& work) const {
  try {
    work(*database_);
  } catch (const SQLite::Exception& error) {
    fail(std::string(doing) + " in", path_, error);
  }
}

void Connection::writing(std::string_view doing, const std::function<void(SQLite::Database&)>& work) const {
  reading(doing, [&](SQLite::Database& database) {
    SQLite::Transaction transaction(database, SQLite::TransactionBehavior::IMMEDIATE);
    work(database);
    transaction.commit();
  });
}

void Connection::trying(std::string_view doing, const std::function<void(SQLite::Database&)>& work) const {
  reading(doing, [&](SQLite::Database& database) {
    const SQLite::Transaction transaction(database, SQLite::TransactionBehavior::IMMEDIATE);
    work(database);  // rolled back at the end
  });
}

}  // namespace fusetune::store
