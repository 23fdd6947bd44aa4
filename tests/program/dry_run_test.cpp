// search --dry-run before and after a search of a tiny problem.
#include <gmock/gmock.h>

#include <algorithm>
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

TEST_F(DryRun, FirstForecastsThenFindsNothingLeft) {
  const json before = answer(" --pairs 20 --dry-run")["predicted"];
  EXPECT_FALSE(std::filesystem::exists(at("small.db")));
  EXPECT_EQ(before["known"], 0);
  EXPECT_GE(before["kernels"], 147);
  EXPECT_EQ(before["to_measure"], before["kernels"]);
  EXPECT_GT(before["device"]["seconds"], 0);
  EXPECT_TRUE(before["total_s"].is_null()) << "nothing tells what the finals take";

  const json made = answer(" --pairs 20");
  EXPECT_EQ(made["predicted"]["kernels"], before["kernels"]);
  EXPECT_GT(made["took"]["measure_s"], 0);
  EXPECT_GE(made["took"]["total_s"], made["took"]["measure_s"]);
  EXPECT_EQ(ask("SELECT json_extract(options, '$.predicted.kernels') FROM search_run"),
            made["predicted"]["kernels"].get<int>());

  const std::string database = base::read_file(at("small.db"));
  const json after = answer(" --pairs 20 --dry-run");
  EXPECT_EQ(after["predicted"]["to_measure"], 0);
  EXPECT_EQ(after["predicted"]["to_compile"], 0);
  EXPECT_EQ(after["predicted"]["known"], after["predicted"]["kernels"]);
  EXPECT_EQ(after["predicted"]["total_s"], 0);
  EXPECT_EQ(after["regret"]["regret"], 0) << "with all that is recorded it finds the best of it";
  EXPECT_EQ(base::read_file(at("small.db")), database);

  const Outcome again = run(kSmallSearch + " --pairs 20 --quiet");
  EXPECT_THAT(again.out, HasSubstr("predicted 0 s (compile 0 s, device 0 s), took "));
}

// Beside what --trials allows, of which nothing is known, and on a file that nobody may write.
TEST_F(DryRun, FollowsTheLimitAndReadsOnly) {
  const json made = answer(" --trials 40 --pairs 20");
  ASSERT_EQ(made["search"]["measured"], 40);
  std::filesystem::permissions(at("small.db"), std::filesystem::perms::owner_read);
  const std::string database = base::read_file(at("small.db"));
  const json predicted = answer(" --trials 7 --dry-run")["predicted"];
  EXPECT_EQ(predicted["to_measure"], 7);
  EXPECT_GE(predicted["known"], 33);  // noisy ones may be measured once more
  EXPECT_FALSE(predicted["device"]["at_least"]) << "the earlier search tells";
  EXPECT_EQ(base::read_file(at("small.db")), database);
  const Outcome text = run(kSmallSearch + " --trials 7 --strategy random --dry-run");
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("whole plans"));
  EXPECT_THAT(text.out, HasSubstr("regret"));
}

// Asked for its version it may be; a kernel it does not get.
TEST_F(DryRun, StartsNoCompiler) {
  base::write_file_atomic(at("counting-c++"), "#!/bin/sh\nfor word; do [ \"$word\" = -c ] && echo >> '" +
                                                  at("calls").string() + "'; done\nexec c++ \"$@\"\n");
  std::filesystem::permissions(at("counting-c++"), std::filesystem::perms::owner_all);
  const json dry = answer(" --trials 1 --dry-run --cxx ./counting-c++");
  EXPECT_EQ(dry["predicted"]["to_compile"], 1);
  EXPECT_FALSE(std::filesystem::exists(at("calls")));
  run(kSmallSearch + " --trials 1 --cxx ./counting-c++");
  EXPECT_TRUE(std::filesystem::exists(at("calls")));
}

TEST_F(DryRun, ExcludesReplay) {
  const Outcome refused = run(kSmallSearch + " --dry-run --replay small.db");
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("--dry-run and --replay exclude each other"));
}

}  // namespace
}  // namespace fusetune::cli_test
