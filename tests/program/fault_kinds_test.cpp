// docs/fault-kinds.md: no kind is left out, each names tests, and these exist.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/text.h"

namespace {

namespace base = fusetune::base;
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

/// The tests that a text names.
std::vector<std::string> named_in(const std::string& text) {
  static const std::regex kNamed(R"(`([A-Z]\w+\.\w+)`)");
  std::vector<std::string> names;
  for (std::sregex_iterator name(text.begin(), text.end(), kNamed), end; name != end; ++name)
    names.push_back((*name)[1].str());
  return names;
}

TEST(FaultKinds, EveryKindHasTestsThatExist) {
  constexpr int kKinds = 38;
  static const std::regex kRow(R"(\| (\d+) \| [^|]+ \| [^|]+ \|)");
  const std::string document = read_file(kRoot / "docs/fault-kinds.md");
  const std::set<std::string> tests = existing_tests();
  int kinds = 0;
  for (const std::string& line : base::split(document, '\n')) {
    const std::vector<std::string> named = named_in(line);
    for (const std::string& name : named) EXPECT_THAT(tests, testing::Contains(name)) << line;
    std::smatch row;
    if (!std::regex_match(line, row, kRow)) continue;
    EXPECT_EQ(row[1].str(), std::to_string(++kinds)) << "the rows are numbered without gaps";
    EXPECT_FALSE(named.empty()) << line;
  }
  EXPECT_EQ(kinds, kKinds);
}

TEST(FaultKinds, EveryFuzzTargetIsNamed) {
  const std::vector<std::string> named = named_in(read_file(kRoot / "docs/fault-kinds.md"));
  for (const std::string& test : existing_tests()) {
    if (!test.starts_with("Fuzz.") || test == "Fuzz.planted") continue;
    EXPECT_THAT(named, testing::Contains(test));
  }
}

}  // namespace
