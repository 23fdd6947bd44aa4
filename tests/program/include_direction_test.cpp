// The direction of dependencies between the folders of src/, checked by reading every #include.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/file.h"

namespace {

namespace fs = std::filesystem;
using fusetune::base::read_file;
using fusetune::base::TemporaryDirectory;
using fusetune::base::write_file_atomic;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Folder -> what it may use; what those may use follows. The table of CONTRIBUTING.md.
const std::map<std::string, std::set<std::string>> kMayUse = {
    {"base", {}},
    {"block", {"base"}},
    {"plan", {"block"}},
    {"lower", {"plan"}},
    {"codegen", {"lower"}},
    {"backend", {"codegen"}},
    {"measure", {"backend"}},
    {"store", {"lower"}},  // and the types of measure, below
    {"model", {"lower"}},
    {"search", {"model"}},
    {"export", {"store", "codegen"}},
    {"report", {"store"}},
    {"cli",
     {"base", "block", "plan", "lower", "codegen", "backend", "measure", "store", "model", "search", "export",
      "report"}},
};

// What a measurement is, without how it is made: the one header of measure that later folders share.
const std::string kMeasurementTypes = "measure/outcome.h";
const std::set<std::string> kUseMeasurementTypes = {"store", "export", "report"};

// Libraries that only one place knows. `where` is matched against the start of the path under src/.
struct Confined {
  std::regex header;
  std::string where;
  bool one_file;
};
const std::vector<Confined> kConfined = {
    {std::regex("SQLiteCpp/.*|sqlite3.*"), "store/", false},
    {std::regex("xgboost/.*"), "model/", true},
    // kernels/cuda/abi.h is our own: plain data that no toolkit is needed for.
    {std::regex("(?!cuda/abi\\.h)(cuda|nvrtc|cublas|cublasLt|driver_types|vector_types).*"), "backend/cuda/",
     false},
};

struct Include {
  std::string file;    // path under src/
  std::string header;  // as written
};

std::vector<Include> includes_of(const fs::path& source) {
  const std::regex directive(R"(^\s*#\s*include\s*["<]([^">]+)[">])");
  std::vector<Include> includes;
  for (const auto& entry : fs::recursive_directory_iterator(source)) {
    const auto extension = entry.path().extension();
    if (!entry.is_regular_file() || (extension != ".h" && extension != ".cpp")) continue;
    std::istringstream lines(read_file(entry.path()));
    for (std::string line; std::getline(lines, line);) {
      std::smatch match;
      if (std::regex_search(line, match, directive)) {
        includes.push_back({fs::relative(entry.path(), source).generic_string(), match[1]});
      }
    }
  }
  std::sort(includes.begin(), includes.end(), [](const Include& a, const Include& b) {
    return std::tie(a.file, a.header) < std::tie(b.file, b.header);
  });
  return includes;
}

std::string first_component(const std::string& path) { return path.substr(0, path.find('/')); }

bool may_use(const std::string& user, const std::string& used) {
  if (user == used) return true;
  const auto row = kMayUse.find(user);
  return row != kMayUse.end() &&
         std::any_of(row->second.begin(), row->second.end(),
                     [&](const std::string& direct) { return may_use(direct, used); });
}

bool is_permitted_folder(const Include& include) {
  const auto used = first_component(include.header);
  if (!kMayUse.contains(used)) return true;  // a system or library header, or kernels/'s ABI
  const auto user = first_component(include.file);
  return may_use(user, used) || (include.header == kMeasurementTypes && kUseMeasurementTypes.contains(user));
}

std::vector<std::string> violations(const fs::path& source) {
  std::vector<std::string> found;
  std::map<const Confined*, std::set<std::string>> users;
  for (const auto& include : includes_of(source)) {
    const std::string what = include.file + " includes " + include.header;
    if (!kMayUse.contains(first_component(include.file))) {
      found.push_back(include.file + " is in a folder that the table does not have");
    } else if (!is_permitted_folder(include)) {
      found.push_back(what + ": " + first_component(include.file) + " may not use " +
                      first_component(include.header));
    }
    for (const auto& confined : kConfined) {
      if (!std::regex_match(include.header, confined.header)) continue;
      users[&confined].insert(include.file);
      if (!include.file.starts_with(confined.where))
        found.push_back(what + ": only " + confined.where + " may");
      if (confined.one_file && users[&confined].size() > 1)
        found.push_back(what + ": another file does already");
    }
  }
  return found;
}

TEST(IncludeDirection, SourcesFollowTheTable) {
  const fs::path source = fs::path(FUSETUNE_SOURCE_DIR) / "src";
  ASSERT_FALSE(includes_of(source).empty()) << "no include was found under " << source;
  EXPECT_THAT(violations(source), IsEmpty());
}

// A source tree of one-line files.
class PlantedSources {
 public:
  PlantedSources& add(const std::string& file, const std::string& line) {
    const auto path = directory_.path() / file;
    fs::create_directories(path.parent_path());
    write_file_atomic(path, "// planted\n" + line + "\n");
    return *this;
  }
  std::vector<std::string> violations() const { return ::violations(directory_.path()); }

 private:
  const TemporaryDirectory directory_;
};

TEST(IncludeDirection, PermitsWhatTheTableSays) {
  PlantedSources sources;
  sources.add("plan/a.h", R"(#include "plan/b.h")")
      .add("lower/a.h", R"(#include "base/error.h")")
      .add("measure/a.cpp", R"(#include "block/problem.h")")
      .add("store/a.cpp", R"(#include "measure/outcome.h")")
      .add("store/b.cpp", "#include <SQLiteCpp/SQLiteCpp.h>")
      .add("backend/cpu/a.cpp", R"(#include "cpu/abi.h")")
      .add("backend/cuda/a.cpp", "#include <cuda.h>")
      .add("model/a.cpp", "#include <xgboost/c_api.h>")
      .add("cli/a.cpp", R"(#include "search/guided.h")");
  EXPECT_THAT(sources.violations(), IsEmpty());
}

TEST(IncludeDirection, FindsPlantedViolations) {
  const auto only = [](const std::string& file, const std::string& line) {
    const auto found = PlantedSources().add(file, line).violations();
    return found.size() == 1 ? found.front() : std::to_string(found.size()) + " violations";
  };
  EXPECT_EQ(only("plan/a.cpp", R"(#include "lower/schedule.h")"),
            "plan/a.cpp includes lower/schedule.h: plan may not use lower");
  EXPECT_THAT(only("search/a.h", R"(  #  include "backend/cpu/runner.h")"),
              HasSubstr("search may not use backend"));
  EXPECT_THAT(only("base/a.cpp", "#include <block/problem.h>"), HasSubstr("base may not use block"));
  EXPECT_THAT(only("store/a.cpp", R"(#include "measure/session.h")"), HasSubstr("store may not use measure"));
  EXPECT_THAT(only("plan/a.cpp", R"(#include "measure/outcome.h")"), HasSubstr("plan may not use measure"));
  EXPECT_THAT(only("report/a.cpp", R"(#include "cli/main.h")"), HasSubstr("report may not use cli"));
  EXPECT_THAT(only("misc/a.cpp", "#include <string>"), HasSubstr("folder that the table does not have"));
  EXPECT_THAT(only("report/a.cpp", "#include <sqlite3.h>"), HasSubstr("only store/ may"));
  EXPECT_THAT(only("backend/cpu/a.cpp", "#include <cuda_runtime.h>"), HasSubstr("only backend/cuda/ may"));
  EXPECT_THAT(only("search/a.cpp", "#include <xgboost/c_api.h>"), HasSubstr("only model/ may"));
}

TEST(IncludeDirection, XgboostIsKnownToOneFile) {
  PlantedSources sources;
  sources.add("model/a.cpp", "#include <xgboost/c_api.h>").add("model/b.cpp", "#include <xgboost/c_api.h>");
  EXPECT_THAT(sources.violations(), ElementsAre(HasSubstr("model/b.cpp")));
}

}  // namespace
