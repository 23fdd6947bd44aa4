#include "store/profile_file.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"

namespace fusetune::store {
namespace {

ProfileRecord profile() {
  ProfileRecord record;
  record.problem = "p 1";
  record.mask = 10;
  record.plan = "[0-1][2-14]";
  record.environment = {"aa11", {{"isa", "avx2"}}};
  record.program = "0.1.0";
  record.cache_mode = "model";
  record.kernels = {{"[0-1]", "first", "tile=1", "h1", 10, 20, 30}, {"[2-14]", "second", "", "h2", 1, 2, 3}};
  record.passes_us = {{0, 1, 4}, {10, 12, 18.0005}};
  record.host_calls = {{"launch [2-14]", 0.5, 1}, {"launch [0-1]", 0.25, 1.5}, {"launch [2-14]", 10, 2.0005}};
  record.dropped = 1;
  return record;
}

TEST(ProfileFile, HoldsEveryLaunchAndSumsThemUp) {
  const base::TemporaryDirectory directory;
  const auto path = directory.path() / "profile.db";
  write_profile_file(path, profile());
  SQLite::Database database(path.string());
  EXPECT_EQ(database.execAndGet("SELECT count(*) FROM launch").getInt(), 4);
  EXPECT_EQ(database.execAndGet("SELECT end_ns FROM launch WHERE pass = 2 AND kernel = 2").getInt64(), 18001);
  EXPECT_EQ(database.execAndGet("SELECT mask || plan || passes || dropped FROM profile").getString(),
            "10[0-1][2-14]21");
  EXPECT_EQ(database.execAndGet("SELECT environment FROM profile").getString(), R"({"isa":"avx2"})");
  SQLite::Statement second(database, "SELECT * FROM kernel_summary WHERE kernel = 2");
  ASSERT_TRUE(second.executeStep());
  EXPECT_EQ(second.getColumn("name").getString(), "[2-14]");
  EXPECT_EQ(second.getColumn("calls").getInt(), 2);
  EXPECT_DOUBLE_EQ(second.getColumn("total_us").getDouble(), 9.001);
  EXPECT_DOUBLE_EQ(second.getColumn("mean_us").getDouble(), 4.5005);
  EXPECT_DOUBLE_EQ(second.getColumn("min_us").getDouble(), 3);
  EXPECT_DOUBLE_EQ(second.getColumn("max_us").getDouble(), 6.001);
  EXPECT_NEAR(second.getColumn("share_percent").getDouble(), 100 * 9.001 / 12.001, 1e-9);
}

TEST(ProfileFile, HoldsEveryHostCallAndSumsThemUpByName) {
  const base::TemporaryDirectory directory;
  const auto path = directory.path() / "profile.db";
  write_profile_file(path, profile());
  SQLite::Database database(path.string());
  EXPECT_EQ(database.execAndGet("SELECT group_concat(start_ns || '-' || end_ns) FROM host_call").getString(),
            "500-1500,250-1750,10000-12001");
  SQLite::Statement row(database, "SELECT * FROM host_call_summary");
  ASSERT_TRUE(row.executeStep());
  EXPECT_EQ(row.getColumn("name").getString(), "launch [0-1]");  // the first to begin
  ASSERT_TRUE(row.executeStep());
  EXPECT_EQ(row.getColumn("name").getString(), "launch [2-14]");
  EXPECT_EQ(row.getColumn("calls").getInt(), 2);
  EXPECT_DOUBLE_EQ(row.getColumn("total_us").getDouble(), 3.001);
  EXPECT_DOUBLE_EQ(row.getColumn("mean_us").getDouble(), 1.5005);
  EXPECT_DOUBLE_EQ(row.getColumn("min_us").getDouble(), 1);
  EXPECT_DOUBLE_EQ(row.getColumn("max_us").getDouble(), 2.001);
  EXPECT_FALSE(row.executeStep());
}

TEST(ProfileFile, ReplacesNothing) {
  const base::TemporaryDirectory directory;
  const auto path = directory.path() / "profile.db";
  write_profile_file(path, profile());
  EXPECT_THROW(write_profile_file(path, profile()), base::UsageError);
  EXPECT_THROW(write_profile_file(directory.path() / "none" / "profile.db", profile()),
               base::EnvironmentError);
}

}  // namespace
}  // namespace fusetune::store
