// Searches that are killed again and again at random moments: the database stays sound, each death costs one
// candidate at most, and the search that is left alone ends well.
//
// FUSETUNE_KILLS says how often each is killed, FUSETUNE_KILL_SEED when; both are printed.
#include <SQLiteCpp/SQLiteCpp.h>
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <random>

#include "base/number.h"
#include "cli/program.h"

namespace fusetune::cli_test {
namespace {

/// As small as a search gets, and as little timing as gives an answer.
const std::string kSearch =
    "export FUSETUNE_CACHE_DIR='" SEARCH_TEST_CACHE
    "'; \"$FUSETUNE\" search --batch 1 --seq 16 --heads 2 --head-size 8 --ffn 32 --layers 2 --isa generic"
    " --threads 1 --samples 5 --min-time 0.02 --pairs 20 --finalists 2 --db killed.db";

int from_environment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  if (text == nullptr) return otherwise;
  return static_cast<int>(base::parse_int(text).value_or(otherwise));
}

class KilledSearch : public testing::TestWithParam<const char*> {
 protected:
  Outcome run(const std::string& script) const { return shell(script, directory_.path()); }
  std::filesystem::path database() const { return directory_.path() / "killed.db"; }

  /// Over both tables of measurements.
  int count(const std::string& what) const {
    if (!std::filesystem::exists(database())) return 0;
    SQLite::Database open(database().string(), SQLite::OPEN_READONLY);
    if (!open.tableExists("plan_measurement")) return 0;  // killed before the schema was there
    int sum = 0;
    for (const char* table : {"segment_measurement", "plan_measurement"})
      sum += open.execAndGet(fmt::format("SELECT ifnull(sum({}), 0) FROM {}", what, table)).getInt();
    return sum;
  }
  int with_outcome(const std::string& outcome) const { return count("outcome = '" + outcome + "'"); }

  /// Starts a search and kills it, its own process only, after so many seconds.
  void kill_one(const std::string& strategy, double seconds) const {
    run(fmt::format("{} --strategy {} --trials 100000 >/dev/null & pid=$!\nsleep {}\nkill -9 $pid; wait $pid",
                    kSearch, strategy, base::format_fixed(seconds, 3)));
  }
  void expect_sound() const {
    if (!std::filesystem::exists(database())) return;
    const Outcome check = run("\"$FUSETUNE\" db check --db killed.db");
    EXPECT_EQ(check.exit_code, 0) << check.out << check.err;
  }

  base::TemporaryDirectory directory_;
};

TEST_P(KilledSearch, LosesOneCandidateADeathAtMost) {
  const int kills = from_environment("FUSETUNE_KILLS", DEFAULT_KILLS);
  const int seed = from_environment("FUSETUNE_KILL_SEED", static_cast<int>(std::random_device{}() >> 1));
  SCOPED_TRACE(fmt::format("FUSETUNE_KILLS={} FUSETUNE_KILL_SEED={}", kills, seed));
  fmt::print("FUSETUNE_KILLS={} FUSETUNE_KILL_SEED={}\n", kills, seed);
  std::mt19937 random(static_cast<unsigned>(seed));
  int measured = 0;
  for (int killed = 1; killed <= kills && !HasFailure(); ++killed) {
    // From before the first row to several candidates later, early moments as often as late ones.
    const double seconds = 0.01 * std::pow(300.0, static_cast<double>(random()) / std::mt19937::max());
    SCOPED_TRACE(fmt::format("kill {}, after {} s", killed, seconds));
    kill_one(GetParam(), seconds);
    expect_sound();
    EXPECT_LE(with_outcome("started"), 1) << "one candidate at a time is at stake";
    EXPECT_LE(count("abandoned") + with_outcome("started"), killed);
    EXPECT_GE(with_outcome("ok"), measured) << "what was measured stays";
    measured = with_outcome("ok");
  }

  // Enough for a plan: of segments it takes all of one segmentation's.
  const int trials = GetParam() == std::string_view("random") ? 3 : 30;
  const Outcome last = run(fmt::format("{} --strategy {} --trials {}", kSearch, GetParam(), trials));
  EXPECT_EQ(last.exit_code, 0) << last.out << last.err;
  expect_sound();
  EXPECT_EQ(with_outcome("started"), 0) << "the dead ones' candidates are settled";
  EXPECT_LE(count("abandoned"), kills);
  EXPECT_GE(with_outcome("ok"), measured);
  SQLite::Database open(database().string(), SQLite::OPEN_READONLY);
  EXPECT_EQ(open.execAndGet("SELECT count(*) FROM search_run WHERE state = 'running'").getInt(), 0);
  EXPECT_EQ(open.execAndGet("SELECT count(*) FROM search_run WHERE state = 'finished'").getInt(), 1);
  fmt::print("{} ok, {} abandoned, {} crashed\n", with_outcome("ok"), count("abandoned"),
             with_outcome("crashed"));
}

INSTANTIATE_TEST_SUITE_P(Strategies, KilledSearch, testing::Values("exhaustive", "random"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace fusetune::cli_test
