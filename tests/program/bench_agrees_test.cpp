// What search says of two plans and what bench says of them: one timer, so one answer.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/file.h"
#include "cli/program.h"

namespace fusetune::cli_test {
namespace {

constexpr const char* kSetUp = "export FUSETUNE_CACHE_DIR='" SEARCH_TEST_CACHE "'; \"$FUSETUNE\" ";
/// Some ten microseconds a plan, so that the host of the test does not decide.
constexpr const char* kProblem =
    " --batch 1 --seq 32 --heads 2 --head-size 16 --ffn 64 --layers 2 --isa generic --threads 1 --db "
    "agree.db";

/// What --schedule reads: "[0-1] handoff=..." a line.
std::string schedule_lines(const nlohmann::json& finalist) {
  std::string lines, segments = finalist.at("plan");
  for (const std::string& schedule : finalist.at("schedules").get<std::vector<std::string>>()) {
    const std::size_t next = segments.find('[', 1);
    lines += segments.substr(0, next) + " " + schedule + "\n";
    segments.erase(0, next);
  }
  return lines;
}

/// The 95 % interval of a ratio of times.
struct Interval {
  explicit Interval(const nlohmann::json& compared)
      : low(compared.at("ratio_low").get<double>()),
        high(compared.at("ratio_high").is_number() ? compared.at("ratio_high").get<double>() : 1e9) {}
  /// Narrow enough to contradict anything.
  bool says_something() const { return high < 1.3 * low; }
  bool meets(const Interval& other) const { return low <= other.high && other.low <= high; }

  double low, high;
};

TEST(BenchAgrees, WithTheComparisonOfASearch) {
  const base::TemporaryDirectory directory;
  const auto run = [&](const std::string& words) {
    const Outcome outcome = shell(kSetUp + words + kProblem + " --json", directory.path());
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return nlohmann::json::parse(outcome.out);
  };
  const nlohmann::json found = run("search --strategy random --trials 12 --finalists 3 --pairs 60");
  const nlohmann::json& finalists = found.at("finalists");
  int compared = 0;
  for (const nlohmann::json& finalist : finalists) {
    if (finalist.at("outcome") != "ok" || finalist.at("mask") == finalists[0].at("mask")) continue;
    const std::string masks = std::to_string(finalists[0].at("mask").get<int>()) + " " +
                              std::to_string(finalist.at("mask").get<int>());
    base::write_file_atomic(directory.path() / "schedules.txt",
                            schedule_lines(finalists[0]) + schedule_lines(finalist));
    // Two comparisons of one pair of plans, each with its interval of 95 %. One of them may be wrong one time
    // in twenty, but the search's is not contradicted three times in a row.
    const Interval searched(finalist);
    int contradictions = 0, answers = 0;
    for (int attempt = 0; attempt < 3 && contradictions == answers; ++attempt) {
      const nlohmann::json rows = run("bench " + masks + " --schedule schedules.txt --pairs 60");
      if (rows.at(1).at("outcome") != "ok") continue;
      const Interval benched(rows[1]);
      if (!benched.says_something() || !searched.says_something()) continue;
      ++answers;
      contradictions += !benched.meets(searched);
    }
    EXPECT_LT(contradictions, 3) << masks << ": search found " << finalist;
    compared += answers > 0;
  }
  if (compared == 0) GTEST_SKIP() << "this machine is too busy to time anything";
}

}  // namespace
}  // namespace fusetune::cli_test
