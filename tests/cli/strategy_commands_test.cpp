// `fusetune evaluate --strategies` as a user runs it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "program.h"

namespace fusetune::cli_test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

const std::string kRecorded = FUSETUNE_SOURCE_DIR "/data/recorded/small-1x64.jsonl.gz";

class Strategies : public testing::Test {
 protected:
  base::TemporaryDirectory directory_;

  Outcome compare(const std::vector<std::string>& more, const std::string& names = "all",
                  const std::string& repeats = "2") const {
    std::vector<std::string> words = {"evaluate", "--strategies", names,  "--replay",
                                      kRecorded,  "--repeats",    repeats};
    words.insert(words.end(), more.begin(), more.end());
    return fusetune(words, directory_.path());
  }
};

TEST_F(Strategies, AllOfThemWithTheSameBudget) {
  const Outcome compared = compare({"--trials", "16,300", "--json"});
  ASSERT_EQ(compared.exit_code, 0) << compared.err;
  const json rows = json::parse(compared.out);
  ASSERT_EQ(rows.size(), 5u * 2 + 1);
  for (const json& row : rows) {
    EXPECT_EQ(row["searches"], 2);
    if (row["mean_regret_percent"].is_null()) continue;  // guided had no plan yet
    EXPECT_GE(row["mean_regret_percent"], 0);
    EXPECT_GE(row["worst_regret_percent"], row["mean_regret_percent"]);
    if (!row["trials"].is_null()) {
      EXPECT_LE(row["mean_spent"], row["trials"]);
    }
    if (row["strategy"] == "random" && row["trials"] == 300) {
      EXPECT_EQ(row["worst_regret_percent"], 0) << "it asked for everything";
      EXPECT_EQ(row["found_best"], 2);
      EXPECT_EQ(row["mean_timed"], 261);
    }
  }
}

TEST_F(Strategies, TheSameSeedPrintsTheSame) {
  const std::vector<std::string> words = {"--trials", "32", "--seed", "3"};
  const Outcome first = compare(words, "all", "1");
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_EQ(first.out, compare(words, "all", "1").out);
  EXPECT_THAT(first.out, AllOf(HasSubstr("Best so far"), HasSubstr("A kernel counts as"),
                               HasSubstr("searches that measured 428 kernels and 250 plans"),
                               HasSubstr("261 of 17408")));
}

TEST_F(Strategies, CurvesAreRowsToo) {
  const Outcome curves = compare({"--trials", "8", "--table", "curves", "--csv"}, "random,anneal");
  ASSERT_EQ(curves.exit_code, 0) << curves.err;
  EXPECT_THAT(curves.out, StartsWith("strategy,search,trials,mask,best_us,regret_percent\nrandom,1,1,"));
  EXPECT_EQ(std::count(curves.out.begin(), curves.out.end(), '\n'), 1 + 2 * 2 * 8);
  EXPECT_THAT(curves.out, Not(HasSubstr("Regret")));
}

TEST_F(Strategies, TheChartHasTheCurvesOfTheTable) {
  const Outcome drawn =
      compare({"--trials", "4", "--chart", "s.html", "--table", "curves", "--json"}, "random");
  ASSERT_EQ(drawn.exit_code, 0) << drawn.err;
  const std::string page = base::read_file(directory_.path() / "s.html");
  const std::string mark = "id=\"data\">\n";
  const std::size_t begin = page.find(mark) + mark.size();
  const json data = json::parse(page.substr(begin, page.find("</script>", begin) - begin));
  const json rows = json::parse(drawn.out);
  ASSERT_EQ(rows.size(), 2u * 4);
  for (std::size_t i = 0; i < 4; ++i) {
    const double a = rows[i]["regret_percent"], b = rows[i + 4]["regret_percent"];
    EXPECT_NEAR(data["curves"][0]["mean"][i], (a + b) / 2, 1e-9);
    EXPECT_NEAR(data["curves"][0]["most"][i], std::max(a, b), 1e-9);
  }
}

TEST_F(Strategies, MasksAndValuesHaveNoKernels) {
  std::string text;
  for (int i = 0; i < 40; ++i)
    text += "00000000001" + std::string(i % 2 ? "01010 " : "00101 ") + std::to_string(50 + i) + "\n";
  base::write_file_atomic(directory_.path() / "notes.txt", text);
  const auto with = [&](const std::string& names) {
    return fusetune({"evaluate", "--data", "notes.txt", "--strategies", names, "--trials", "2"},
                    directory_.path());
  };
  const Outcome all = with("all");
  EXPECT_EQ(all.exit_code, 0) << all.err;
  EXPECT_THAT(all.err, HasSubstr("guided is left out"));
  EXPECT_THAT(all.out, Not(HasSubstr("guided ")));
  EXPECT_EQ(with("guided").exit_code, 2);
  EXPECT_THAT(with("guided").err, HasSubstr("has masks and values, not kernels"));
}

TEST_F(Strategies, BadOptionsAreRefused) {
  EXPECT_THAT(compare({}, "rnadom").err,
              HasSubstr("'rnadom' is none of mask, bayesian, random, anneal, guided"));
  EXPECT_EQ(compare({"--trials", "8,x"}).exit_code, 2);
  EXPECT_EQ(compare({"--table", "curves"}).exit_code, 2) << "neither --csv nor --json";
  EXPECT_EQ(compare({"--db", kRecorded}).exit_code, 2) << "two sources";
  EXPECT_THAT(compare({"--cost-model", FUSETUNE_SOURCE_DIR "/models/plans.json"}, "guided").err,
              HasSubstr("guided begins with a model of kernels"));
  for (const char* option : {"--trials", "--repeats", "--cost-model", "--chart", "--replay"}) {
    const Outcome alone = fusetune({"evaluate", "--db", kRecorded, option, "8"});
    EXPECT_EQ(alone.exit_code, 2) << option;
    EXPECT_THAT(alone.err, HasSubstr("belongs to --strategies")) << option;
  }
}

}  // namespace
}  // namespace fusetune::cli_test
