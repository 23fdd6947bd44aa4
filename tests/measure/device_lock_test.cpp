#include "measure/device_lock.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"

namespace fusetune::measure {
namespace {

struct GivenUp {};

/// A device of this test's own: others are timing on the real ones.
class DeviceLockTest : public testing::Test {
 protected:
  const std::string device_ = "test-" + std::to_string(getpid());
  const std::filesystem::path file_ = "/tmp/fusetune-" + device_ + ".lock";
  void TearDown() override { std::filesystem::remove(file_); }

  /// Whether the lock is to be had at once.
  bool is_free(DeviceLock::Hold (DeviceLock::*take)()) const {
    DeviceLock lock(device_, [] { throw GivenUp{}; });
    try {
      (lock.*take)();
      return true;
    } catch (const GivenUp&) {
      return false;
    }
  }
};

TEST_F(DeviceLockTest, WhileOneTimesNobodyElseTimesOrCompiles) {
  DeviceLock lock(device_);
  {
    const DeviceLock::Hold hold = lock.for_timing();
    EXPECT_FALSE(is_free(&DeviceLock::for_timing));
    EXPECT_FALSE(is_free(&DeviceLock::for_compiling));
  }
  EXPECT_TRUE(is_free(&DeviceLock::for_timing));
  const DeviceLock::Hold hold = lock.for_compiling();
  EXPECT_FALSE(is_free(&DeviceLock::for_timing));
  EXPECT_TRUE(is_free(&DeviceLock::for_compiling));
}

TEST_F(DeviceLockTest, TryingDoesNotWait) {
  DeviceLock lock(device_), other(device_);
  {
    const std::optional<DeviceLock::Hold> hold = lock.try_for_timing();
    ASSERT_TRUE(hold);
    EXPECT_FALSE(other.try_for_timing());
    EXPECT_FALSE(is_free(&DeviceLock::for_compiling));
  }
  {
    const DeviceLock::Hold hold = lock.for_compiling();
    EXPECT_FALSE(other.try_for_timing());
  }
  EXPECT_TRUE(other.try_for_timing());
  EXPECT_TRUE(is_free(&DeviceLock::for_timing)) << "what was not kept is free again";
}

TEST_F(DeviceLockTest, AHoldThatMovesIsHeldOnce) {
  DeviceLock lock(device_);
  std::optional<DeviceLock::Hold> kept;
  {
    std::optional<DeviceLock::Hold> hold = lock.try_for_timing();
    ASSERT_TRUE(hold);
    kept.emplace(std::move(*hold));
  }
  EXPECT_FALSE(is_free(&DeviceLock::for_timing));
  kept.reset();
  EXPECT_TRUE(is_free(&DeviceLock::for_timing));
}

// Two searches with caches of their own still share the machine.
TEST_F(DeviceLockTest, IsOneForAllCaches) {
  DeviceLock lock(device_);
  const DeviceLock::Hold hold = lock.for_timing();
  const char* before = getenv("FUSETUNE_CACHE_DIR");
  const std::optional<std::string> saved = before ? std::optional<std::string>(before) : std::nullopt;
  setenv("FUSETUNE_CACHE_DIR", "/tmp/another-cache", 1);
  EXPECT_FALSE(is_free(&DeviceLock::for_timing));
  saved ? setenv("FUSETUNE_CACHE_DIR", saved->c_str(), 1) : unsetenv("FUSETUNE_CACHE_DIR");
}

TEST_F(DeviceLockTest, AnotherUserMayOpenItWhateverTheUmask) {
  const mode_t before = umask(077);
  const DeviceLock lock(device_);
  umask(before);
  struct stat status {};
  ASSERT_EQ(stat(file_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0644u);
}

// A link planted under the lock's name must not make fusetune create or open something else.
TEST_F(DeviceLockTest, DoesNotFollowALink) {
  std::filesystem::create_symlink("/tmp/fusetune-nowhere", file_);
  try {
    const DeviceLock lock(device_);  // the cache's, where there is a cache
  } catch (const base::EnvironmentError&) {
  }
  EXPECT_FALSE(std::filesystem::exists("/tmp/fusetune-nowhere"));
}

}  // namespace
}  // namespace fusetune::measure
