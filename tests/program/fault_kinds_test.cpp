// docs/fault-kinds.md names tests: they exist.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <regex>
#include <set>
#include <string>

#include "base/file.h"

namespace {

namespace fs = std::filesystem;
using fusetune::base::read_file;

const fs::path kRoot = FUSETUNE_SOURCE_DIR;

/// "Suite.Name" of every TEST, TEST_F and TEST_P, and "Fuzz.name" of every fuzz target.
std::set<std::string> existing_tests() {
  static const std::regex kTest(R"(\bTEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\s*\))");
  std::set<std::string> tests;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(kRoot / "tests")) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with("_target.cpp"))
      tests.insert("Fuzz." + name.substr(0, name.size() - std::string("_target.cpp").size()));
    if (entry.path().extension() != ".cpp") continue;
    const std::string text = read_file(entry.path());
    for (std::sregex_iterator test(text.begin(), text.end(), kTest), end; test != end; ++test)
      tests.insert((*test)[1].str() + "." + (*test)[2].str());
  }
  return tests;
}

TEST(FaultKinds, NamedTestsExist) {
  static const std::regex kNamed(R"(`([A-Z]\w+\.\w+)`)");
  const std::string document = read_file(kRoot / "docs/fault-kinds.md");
  const std::set<std::string> tests = existing_tests();
  int named = 0;
  for (std::sregex_iterator name(document.begin(), document.end(), kNamed), end; name != end; ++name, ++named)
    EXPECT_THAT(tests, testing::Contains((*name)[1].str()));
  EXPECT_GT(named, 40);
}

}  // namespace
