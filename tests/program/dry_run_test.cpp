// search --dry-run before and after a search of a tiny problem; after a whole one: search_program_test.cpp.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "small_search.h"

namespace fusetune::cli_test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class DryRun : public SmallSearch {
 protected:
  /// The object that kSmallSearch with these options says.
  json answer(const std::string& options) const {
    const Outcome outcome = run(kSmallSearch + options + " --quiet --json");
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    json parsed = json::parse(outcome.out, nullptr, false);
    EXPECT_TRUE(parsed.is_object()) << outcome.out;
    return parsed;
  }
};

// A search, predicted before it begins and compared with that; then another, of a file that nobody may write.
TEST_F(DryRun, PredictsASearchAndTheOneAfterIt) {
  const std::string options = " --strategy exhaustive --trials 30 --pairs 20";
  const json before = answer(options + " --dry-run")["predicted"];
  EXPECT_FALSE(std::filesystem::exists(at("small.db")));
  EXPECT_EQ(before["known"], 0);
  EXPECT_EQ(before["to_measure"], 30);
  EXPECT_GT(before["device"]["seconds"], 0);
  EXPECT_TRUE(before["total_s"].is_null()) << "nothing tells what the finals take";

  const json made = answer(options);
  EXPECT_EQ(made["search"]["measured"], 30);
  EXPECT_EQ(made["predicted"]["to_measure"], 30);
  EXPECT_GT(made["took"]["measure_s"], 0);
  EXPECT_GE(made["took"]["total_s"], made["took"]["measure_s"]);
  EXPECT_EQ(ask("SELECT json_extract(result, '$.predicted.to_measure') FROM search_run"), 30);

  std::filesystem::permissions(at("small.db"), std::filesystem::perms::owner_read);
  const std::string database = base::read_file(at("small.db"));
  const json after = answer(" --strategy exhaustive --trials 7 --dry-run");
  EXPECT_EQ(after["predicted"]["to_measure"], 7);
  EXPECT_GE(after["predicted"]["known"], 23) << "all but those that were noisy";
  EXPECT_FALSE(after["predicted"]["device"]["at_least"]) << "the earlier search tells";
  EXPECT_TRUE(after["predicted"]["finals"]["seconds"].is_number());
  EXPECT_GE(after["regret"]["regret"], 0);
  const Outcome text = run(kSmallSearch + " --trials 7 --strategy random --dry-run");
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("whole plans"));
  EXPECT_THAT(text.out, HasSubstr("regret"));
  EXPECT_EQ(base::read_file(at("small.db")), database);
}

// What the model that comes with fusetune expects stands in for times that there are not; else FLOPs and
// bytes.
TEST_F(DryRun, ForecastsAGuidedSearchWithinItsLimits) {
  constexpr int kRounds = 48, kDiverse = 8;  // plans of `guided` beside its finalists
  for (const char* model : {"shipped", "none"}) {
    const json all = answer(std::string(" --dry-run --cost-model ") + model)["predicted"];
    EXPECT_EQ(all["counts"], "about");
    EXPECT_EQ(all["known"], 0);
    EXPECT_GT(all["kernels"], 60) << "the opening";
    EXPECT_EQ(all["plans"], 2 + kDiverse + kRounds) << "as many as it may time";
    EXPECT_EQ(all["to_measure"], all["kernels"].get<int>() + all["plans"].get<int>());
  }
  // The least that pays for kernels and plans: it stops within it, whichever of the two it ends in.
  EXPECT_LE(answer(" --dry-run --cost-model none --trials 177")["predicted"]["to_measure"], 177);
}

// Asked for its version it may be; a kernel it does not get.
TEST_F(DryRun, StartsNoCompiler) {
  base::write_file_atomic(at("counting-c++"), "#!/bin/sh\nfor word; do [ \"$word\" = -c ] && echo >> '" +
                                                  at("calls").string() + "'; done\nexec c++ \"$@\"\n");
  std::filesystem::permissions(at("counting-c++"), std::filesystem::perms::owner_all);
  const json dry = answer(" --strategy exhaustive --trials 1 --dry-run --cxx ./counting-c++");
  EXPECT_EQ(dry["predicted"]["to_compile"], 1);
  EXPECT_FALSE(std::filesystem::exists(at("calls")));
  run(kSmallSearch + " --strategy exhaustive --trials 1 --cxx ./counting-c++");
  EXPECT_TRUE(std::filesystem::exists(at("calls")));
}

TEST_F(DryRun, ExcludesReplay) {
  const Outcome refused = run(kSmallSearch + " --dry-run --replay small.db");
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("--dry-run and --replay exclude each other"));
}

}  // namespace
}  // namespace fusetune::cli_test
