// Files that are not ours, damaged, newer, older; directories and disks that refuse.
#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <fstream>

#include "store_fixture.h"

namespace fusetune::store {
namespace {

using testing::HasSubstr;

template <typename Work>
std::string environment_error(const Work& work) {
  try {
    work();
  } catch (const base::EnvironmentError& error) {
    return error.what();
  }
  return "no EnvironmentError";
}

/// Runs `work` in a child process; its return value is the exit code.
template <typename Work>
int in_child(const Work& work) {
  const pid_t child = fork();
  if (child == 0) _exit(work());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

TEST_F(StoreTest, NewFileHasTheNewestSchemaAndItsApplicationId) {
  opened();
  SQLite::Database raw(file_.string());
  EXPECT_EQ(raw.execAndGet("PRAGMA user_version").getInt(), 5);
  EXPECT_EQ(raw.execAndGet("PRAGMA application_id").getInt64(), kApplicationId);
  EXPECT_EQ(raw.execAndGet("PRAGMA journal_mode").getString(), "wal");
}

TEST_F(StoreTest, MissingFileIsNamed) {
  const std::string error =
      environment_error([&] { TuningStore(file_, StoreOptions{.access = Access::existing}); });
  EXPECT_THAT(error, HasSubstr(file_.string()));
  EXPECT_THAT(error, HasSubstr("no such file"));
  EXPECT_FALSE(std::filesystem::exists(file_));
  EXPECT_THAT(environment_error([&] { TuningStore(directory_.path() / "no" / "such.db"); }),
              HasSubstr("does not exist"));
  EXPECT_THAT(environment_error([&] { TuningStore(directory_.path()); }), HasSubstr("directory"));
}

// SQLite would take both names for a database that vanishes when it is closed.
TEST_F(StoreTest, NamesThatAreNoFileAreRefused) {
  EXPECT_THROW(TuningStore(""), base::UsageError);
  EXPECT_THROW(TuningStore(":memory:"), base::UsageError);
}

TEST_F(StoreTest, LookingAtAnEmptyFileLeavesItEmpty) {
  base::write_file_atomic(file_, "");
  EXPECT_THAT(environment_error([&] { TuningStore(file_, StoreOptions{.access = Access::existing}); }),
              HasSubstr("empty"));
  EXPECT_EQ(std::filesystem::file_size(file_), 0u);
}

TEST_F(StoreTest, ForeignFilesAreRefusedAndUntouched) {
  const std::string text(5000, 'x');
  std::ofstream(file_) << text;
  EXPECT_THAT(environment_error([&] { TuningStore{file_}; }), HasSubstr("not a fusetune database"));
  EXPECT_EQ(base::read_file(file_), text);

  const std::filesystem::path other = directory_.path() / "other.db";
  {
    SQLite::Database raw(other.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    raw.exec("CREATE TABLE bookmarks (url TEXT)");
  }
  const std::string before = base::read_file(other);
  EXPECT_THAT(environment_error([&] { TuningStore{other}; }), HasSubstr("another program's"));
  EXPECT_EQ(base::read_file(other), before);
}

TEST_F(StoreTest, TruncatedAndDamagedFilesAreRefused) {
  {
    TuningStore store = opened();
    for (int i = 0; i < 200; ++i) store.record(record_of(i % 147, "hash" + std::to_string(i)));
  }
  const std::string whole = base::read_file(file_);
  ASSERT_GT(whole.size(), 40'000u);
  for (const std::size_t size : {std::size_t{50}, std::size_t{100}, std::size_t{4096}, whole.size() / 2}) {
    base::write_file_atomic(file_, whole.substr(0, size));
    EXPECT_THROW(TuningStore{file_}, base::EnvironmentError) << size;
    EXPECT_THAT(environment_error([&] { TuningStore{file_}; }), HasSubstr("truncated")) << size;
  }
  std::string damaged = whole;
  for (std::size_t i = 8192; i < 20'000; ++i) damaged[i] = '\x5a';
  base::write_file_atomic(file_, damaged);
  EXPECT_THROW(TuningStore{file_}, DamagedFile);
  base::write_file_atomic(file_, whole);
  EXPECT_EQ(TuningStore{file_}.records(kProblem, "env-a", "model").size(), 200u);
}

constexpr std::array<Migration, 3> kSynthetic = {{
    {1, "CREATE TABLE t (a INTEGER); INSERT INTO t VALUES (1)"},
    {2, "ALTER TABLE t ADD COLUMN b INTEGER NOT NULL DEFAULT 7"},
    {3, "UPDATE t SET b = b + a"},
}};

void open_and_close(const std::filesystem::path& file, std::span<const Migration> migrations) {
  const TuningStore store(file, {.migrations = migrations});
}

TEST_F(StoreTest, EveryOlderVersionIsMigrated) {
  for (std::size_t from = 1; from <= kSynthetic.size(); ++from) {
    const std::filesystem::path file = directory_.path() / ("v" + std::to_string(from) + ".db");
    open_and_close(file, std::span(kSynthetic).first(from));
    open_and_close(file, kSynthetic);
    SQLite::Database raw(file.string());
    EXPECT_EQ(raw.execAndGet("SELECT b FROM t").getInt(), 8) << from;
    EXPECT_EQ(raw.execAndGet("PRAGMA user_version").getInt(), 3) << from;
  }
}

TEST_F(StoreTest, MigrationThatFailsLeavesTheOldVersion) {
  open_and_close(file_, std::span(kSynthetic).first(1));
  static constexpr std::array<Migration, 3> kBroken = {
      {kSynthetic[0], kSynthetic[1], {3, "UPDATE nothing SET x = 1"}}};
  EXPECT_THROW(open_and_close(file_, kBroken), base::EnvironmentError);
  SQLite::Database raw(file_.string());
  EXPECT_EQ(raw.execAndGet("PRAGMA user_version").getInt(), 1);
  EXPECT_THROW(raw.execAndGet("SELECT b FROM t"), SQLite::Exception);
}

TEST_F(StoreTest, NewerSchemaIsRefusedByVersion) {
  open_and_close(file_, kSynthetic);
  const std::string error = environment_error([&] { open_and_close(file_, std::span(kSynthetic).first(2)); });
  EXPECT_THAT(error, HasSubstr("version 3"));
  EXPECT_THAT(error, HasSubstr("up to version 2"));
}

TEST_F(StoreTest, WithoutWriteAheadLogAnotherJournalIsUsedAndSaidOnce) {
  const StoreOptions options{.vfs = "unix-dotfile"};  // a file layer without shared memory
  testing::internal::CaptureStderr();
  {
    TuningStore store = opened(options);
    store.record(record_of(1, "abc"));
    EXPECT_EQ(store.stats().journal_mode, "delete");
  }
  TuningStore again(file_, options);
  EXPECT_TRUE(again.find(record_of(1, "abc").key));
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("journal mode `delete`"));
  EXPECT_EQ(said.find("journal mode"), said.rfind("journal mode"));
}

TEST_F(StoreTest, QuotaReachedKeepsEarlierRows) {
  TuningStore store = opened({.maximum_pages = 40});
  int stored = 0;
  const std::string error = environment_error([&] {
    for (int i = 0; i < 5000; ++i, ++stored) store.record(record_of(i % 147, "hash" + std::to_string(i)));
  });
  EXPECT_THAT(error, HasSubstr("full"));
  EXPECT_GT(stored, 10);
  EXPECT_EQ(static_cast<int>(store.records(kProblem, "env-a", "model").size()), stored);
  EXPECT_TRUE(store.check().empty());
}

TEST_F(StoreTest, QuotaReachedKeepsEarlierPlans) {
  TuningStore store = opened({.maximum_pages = 40});
  std::size_t stored = 0;
  const std::string error = environment_error([&] {
    for (std::size_t i = 0; i < 5000; ++i, ++stored) store.record_plan(plan_of(i));
  });
  EXPECT_THAT(error, HasSubstr("full"));
  EXPECT_GT(stored, 10u);
  EXPECT_EQ(store.plan_records(kProblem, "env-a", "model").size(), stored);
  EXPECT_TRUE(store.check().empty());
}

TEST_F(StoreTest, FullDiskKeepsEarlierRows) {
  // A real file system of 256 KB, in a mount namespace of the child's own.
  constexpr int kNotPermitted = 77;
  const int code = in_child([&] {
    if (unshare(CLONE_NEWNS) != 0 || mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("tmpfs", directory_.path().c_str(), "tmpfs", 0, "size=256k") != 0) {
      return kNotPermitted;
    }
    int stored = 0;
    std::string error;
    {
      TuningStore store(file_);
      store.begin_run(kProblem, environment(), "{}");
      error = environment_error([&] {
        for (int i = 0; i < 5000; ++i, ++stored) store.record(record_of(i % 147, "hash" + std::to_string(i)));
      });
    }
    if (error.find("disk") == std::string::npos || error.find(file_.string()) == std::string::npos) return 1;
    if (stored < 10) return 2;
    // Room again, as after somebody deleted files: everything committed is there.
    if (mount("tmpfs", directory_.path().c_str(), "tmpfs", MS_REMOUNT, "size=4m") != 0) return 3;
    TuningStore store(file_);
    if (static_cast<int>(store.records(kProblem, "env-a", "model").size()) != stored) return 4;
    return store.check().empty() ? 0 : 5;
  });
  if (code == kNotPermitted) GTEST_SKIP() << "needs the right to mount a tmpfs";
  EXPECT_EQ(code, 0);
}

TEST_F(StoreTest, ReadOnlyDirectoryIsRefused) {
  opened();
  std::filesystem::permissions(directory_.path(),
                               std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec |
                                   std::filesystem::perms::others_read | std::filesystem::perms::others_exec);
  const int code = in_child([&] {
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) return 77;
    const std::string error = environment_error([&] { TuningStore{file_}; });
    return error.find("Permission denied") != std::string::npos && error.find("--db") != std::string::npos
               ? 0
               : 1;
  });
  std::filesystem::permissions(directory_.path(), std::filesystem::perms::owner_all);
  if (code == 77) GTEST_SKIP() << "cannot give up root";
  EXPECT_EQ(code, 0);
}

// To look is possible all the same, with everything a writer left in its log.
TEST_F(StoreTest, FileInAReadOnlyDirectoryIsLookedAtInACopy) {
  const int writer = in_child([&] {
    TuningStore store = opened();
    store.record(record_of(1, "abc"));
    raise(SIGKILL);  // its log is not written back
    return 0;
  });
  EXPECT_EQ(writer, 128);
  ASSERT_TRUE(std::filesystem::exists(file_.string() + "-wal"));
  std::filesystem::permissions(directory_.path(),
                               std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec |
                                   std::filesystem::perms::others_read | std::filesystem::perms::others_exec);
  testing::internal::CaptureStderr();
  const int code = in_child([&] {
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) return 77;
    const TuningStore store(file_, {.access = Access::look});
    if (!store.find(record_of(1, "abc").key)) return 1;
    if (store.path() != file_) return 2;
    return store.check().empty() ? 0 : 3;
  });
  const std::string said = testing::internal::GetCapturedStderr();
  std::filesystem::permissions(directory_.path(), std::filesystem::perms::owner_all);
  if (code == 77) GTEST_SKIP() << "cannot give up root";
  EXPECT_EQ(code, 0);
  EXPECT_THAT(said, HasSubstr("looking at a copy"));
}

}  // namespace
}  // namespace fusetune::store
