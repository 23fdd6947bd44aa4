#include "base/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/log.h"

namespace fusetune::base {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::size_t entries(const fs::path& directory) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(directory), fs::directory_iterator()));
}

// Root may write anywhere; as another user permissions count. Restored on destruction.
class AsOrdinaryUser {
 public:
  AsOrdinaryUser() {
    constexpr uid_t kNobody = 65534;
    if (::geteuid() == 0) switched_ = ::seteuid(kNobody) == 0;
  }
  ~AsOrdinaryUser() {
    if (switched_ && ::seteuid(0) != 0) std::abort();
  }
  bool ordinary() const { return ::geteuid() != 0; }

 private:
  bool switched_ = false;
};

TEST(File, ReadsBackEveryByte) {
  const TemporaryDirectory directory;
  std::string content(200'000, '\0');
  for (std::size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * 7);
  write_file_atomic(directory.path() / "data", content);
  EXPECT_TRUE(read_file(directory.path() / "data") == content);
  write_file_atomic(directory.path() / "data", "");
  EXPECT_EQ(read_file(directory.path() / "data"), "");
  EXPECT_EQ(entries(directory.path()), 1u) << "a temporary file was left";
}

TEST(File, NamesWithSpacesAndOtherLetters) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "größe 1 \xe8\xbe\x93.txt";
  write_file_atomic(path, "x");
  EXPECT_EQ(read_file(path), "x");
}

TEST(File, ReadsFilesOfUnknownSize) { EXPECT_THAT(read_file("/proc/self/status"), HasSubstr("Pid:")); }

TEST(File, ErrorsNamePathAndReason) {
  const auto message = [](auto&& action) -> std::string {
    try {
      action();
    } catch (const EnvironmentError& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(message([] { read_file("/nowhere/file"); }),
            "cannot read '/nowhere/file': No such file or directory");
  EXPECT_EQ(message([] { read_file("/tmp"); }), "cannot read '/tmp': Is a directory");
  EXPECT_EQ(message([] { write_file_atomic("/nowhere/file", "x"); }),
            "cannot write '/nowhere/file': No such file or directory");
}

TEST(File, ReadOnlyDirectoryIsAnErrorAndKeepsTheOldFile) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "kept";
  write_file_atomic(path, "old");
  ::chmod(directory.path().c_str(), 0555);
  {
    const AsOrdinaryUser user;
    if (!user.ordinary()) GTEST_SKIP() << "root that cannot become another user: permissions do not bind it";
    EXPECT_THROW(write_file_atomic(path, "new"), EnvironmentError);
  }
  ::chmod(directory.path().c_str(), 0755);
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(entries(directory.path()), 1u);
}

TEST(File, FailedRenameLeavesNoTemporaryFile) {
  const TemporaryDirectory directory;
  fs::create_directories(directory.path() / "target" / "not empty");
  EXPECT_THROW(write_file_atomic(directory.path() / "target", "x"), EnvironmentError);
  EXPECT_EQ(entries(directory.path()), 1u);
}

TEST(File, DevicesPipesAndLinksStayWhatTheyAre) {
  const TemporaryDirectory directory;
  const fs::path device =
      directory.path() / "device";  // a fault here must not cost the machine its /dev/full
  fs::create_symlink("/dev/full", device);
  EXPECT_THROW(write_file_atomic(device, "x"), EnvironmentError);
  EXPECT_TRUE(fs::is_symlink(device));

  const fs::path target = directory.path() / "target", link = directory.path() / "link";
  write_file_atomic(target, "something longer");
  fs::create_symlink(target, link);
  write_file_atomic(link, "new");
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(read_file(target), "new");

  const fs::path pipe = directory.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::string received;
  std::thread reader([&] { received = read_file(pipe); });
  write_file_atomic(pipe, "through");
  reader.join();
  EXPECT_EQ(received, "through");
}

TEST(File, ReadersNeverSeeAPart) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "file";
  const std::string a(100'000, 'a'), b(50'000, 'b');
  write_file_atomic(path, a);
  std::thread writer([&] {
    for (int i = 0; i < 50; ++i) write_file_atomic(path, i % 2 == 0 ? b : a);
  });
  for (int i = 0; i < 200; ++i) {
    const auto content = read_file(path);
    EXPECT_TRUE(content == a || content == b) << content.size() << " bytes";
  }
  writer.join();
}

TEST(TemporaryDirectoryTest, IsPrivateAndRemoved) {
  fs::path path;
  {
    const TemporaryDirectory directory, other;
    path = directory.path();
    EXPECT_NE(path, other.path());
    EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_all);
    fs::create_directories(path / "deep" / "er");
    write_file_atomic(path / "deep" / "er" / "file", "x");
  }
  EXPECT_FALSE(fs::exists(path));
}

// Sets the three variables that cache_directory() reads (null: unset) and restores them.
class CacheDirectory : public testing::Test {
 protected:
  static constexpr const char* kNames[] = {"FUSETUNE_CACHE_DIR", "XDG_CACHE_HOME", "HOME"};

  void SetUp() override {
    set_quiet(true);
    for (const char* name : kNames) {
      const char* value = std::getenv(name);
      before_.push_back(value == nullptr ? std::nullopt : std::optional<std::string>(value));
    }
  }
  void TearDown() override {
    set_quiet(false);
    for (std::size_t i = 0; i < before_.size(); ++i) set(kNames[i], before_[i]);
  }
  static void set(const char* name, const std::optional<std::string>& value) {
    value ? ::setenv(name, value->c_str(), 1) : ::unsetenv(name);
  }
  static fs::path with(const std::optional<std::string>& own, const std::optional<std::string>& xdg,
                       const std::optional<std::string>& home) {
    set(kNames[0], own);
    set(kNames[1], xdg);
    set(kNames[2], home);
    return cache_directory();
  }

  const TemporaryDirectory directory_;
  const std::string root_ = directory_.path().string();

 private:
  std::vector<std::optional<std::string>> before_;
};

TEST_F(CacheDirectory, OwnVariableThenXdgThenHome) {
  EXPECT_EQ(with(root_ + "/own/deep", root_ + "/xdg", root_ + "/home"), root_ + "/own/deep");
  EXPECT_EQ(with(std::nullopt, root_ + "/xdg", root_ + "/home"), root_ + "/xdg/fusetune");
  EXPECT_EQ(with("", "", root_ + "/home"), root_ + "/home/.cache/fusetune");
  EXPECT_EQ(with(std::nullopt, std::nullopt, std::nullopt), "");
  for (const char* made : {"/own/deep", "/xdg/fusetune", "/home/.cache/fusetune"}) {
    EXPECT_TRUE(fs::is_directory(root_ + made)) << made;
    EXPECT_TRUE(fs::is_empty(root_ + made)) << made << " has left-overs of the write check";
  }
}

TEST_F(CacheDirectory, RelativeXdgIsIgnored) {
  EXPECT_EQ(with(std::nullopt, "relative", root_ + "/home"), root_ + "/home/.cache/fusetune");
}

TEST_F(CacheDirectory, UnusableMeansNone) {
  write_file_atomic(directory_.path() / "file", "");
  EXPECT_EQ(with(root_ + "/file/cache", root_ + "/xdg", root_ + "/home"), "")
      << "asked for one place, used another";
  EXPECT_EQ(with(std::nullopt, std::nullopt, "/proc/nobody"), "");
}

TEST_F(CacheDirectory, UnwritableHomeMeansNone) {
  fs::create_directories(root_ + "/home/.cache/fusetune");
  ::chmod((root_ + "/home/.cache/fusetune").c_str(), 0555);
  ::chmod(root_.c_str(), 0755);
  const AsOrdinaryUser user;
  if (!user.ordinary()) GTEST_SKIP() << "root that cannot become another user: permissions do not bind it";
  EXPECT_EQ(with(std::nullopt, std::nullopt, root_ + "/home"), "");
}

}  // namespace
}  // namespace fusetune::base
