#include "backend/cuda/cubin_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "base/file.h"
#include "installed_nvrtc.h"

namespace fusetune::backend::cuda {
namespace {

namespace fs = std::filesystem;

const CubinEntry kEntry{"12\nptxas info : Used 3 registers\n", std::string("\x7f"
                                                                           "ELF\0\n7",
                                                                           7)};

void overwrite(const fs::path& file, const std::string& content) {
  std::ofstream(file, std::ios::binary) << content;
}

TEST(CubinCache, GivesBackImageAndLog) {
  const base::TemporaryDirectory directory;
  const CubinCache cache(directory.path());
  EXPECT_FALSE(cache.find("key"));
  cache.store("key", kEntry);
  const auto found = CubinCache(directory.path()).find("key");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->log, kEntry.log);
  EXPECT_EQ(found->cubin, kEntry.cubin);
}

TEST(CubinCache, ADamagedEntryIsAbsent) {
  const base::TemporaryDirectory directory;
  const CubinCache cache(directory.path());
  cache.store("key", kEntry);
  const fs::path file = directory.path() / "cubins" / "key";
  const std::string whole = base::read_file(file);
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    overwrite(file, whole.substr(0, bytes));
    EXPECT_FALSE(cache.find("key")) << "cut to " << bytes << " bytes";
  }
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    overwrite(file, changed);
    const auto found = cache.find("key");
    EXPECT_TRUE(!found || (found->log == kEntry.log && found->cubin == kEntry.cubin)) << "byte " << at;
  }
  overwrite(file, whole);
  EXPECT_TRUE(cache.find("key"));
}

TEST(CubinCache, StatesItsCompilersTheNewestFirst) {
  const base::TemporaryDirectory directory;
  const CubinCache cache(directory.path());
  EXPECT_TRUE(cache.compilers().empty());
  const CompilerRelease old{"nvrtc 12.9 libnvrtc.so.12 5", 12, 9, {50, 90}};
  const CompilerRelease recent{"nvrtc 13.0 libnvrtc.so.13 7", 13, 0, {75, 90, 100}};
  cache.state(recent);
  cache.state(old);
  cache.state(recent);
  EXPECT_EQ(cache.compilers(), (std::vector<CompilerRelease>{recent, old}));

  base::write_file_atomic(directory.path() / "compilers" / "other", "not one\n");
  std::string cut = recent.to_text();
  cut.resize(cut.size() - 2);
  base::write_file_atomic(directory.path() / "compilers" / "cut", cut);
  EXPECT_EQ(cache.compilers().size(), 2u);
  CubinCache({}).state(old);
  EXPECT_TRUE(CubinCache({}).compilers().empty());
}

TEST(OpenCompiler, WithoutNvrtcAndCacheSaysHowToGetIt) {
  const base::TemporaryDirectory directory;
  const ScopedVariable none("FUSETUNE_NVRTC", "/no/such/libnvrtc.so");
  try {
    open_compiler(directory.path());
    FAIL() << "opened what is not there";
  } catch (const base::EnvironmentError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("/no/such/libnvrtc.so"));
  }
}

TEST(CubinCache, WithoutADirectoryNothingIsKept) {
  const CubinCache cache{fs::path()};
  cache.store("key", kEntry);
  EXPECT_FALSE(cache.find("key"));
  const fs::path saved = cache.save_failed_source("cubin_cache_test_failed", "text");
  ASSERT_FALSE(saved.empty());
  EXPECT_EQ(base::read_file(saved), "text");
  fs::remove(saved);
}

TEST(CubinCache, OneThatCannotBeWrittenIsNoError) {
  const base::TemporaryDirectory directory;
  const fs::path file = directory.path() / "file";
  base::write_file_atomic(file, "");
  const CubinCache cache(file / "below a file");
  cache.store("key", kEntry);
  EXPECT_FALSE(cache.find("key"));
  EXPECT_TRUE(cache.save_failed_source("symbol", "text").empty());
}

}  // namespace
}  // namespace fusetune::backend::cuda
