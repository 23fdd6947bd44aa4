// Searches that are killed again and again at random moments: the database stays sound, each death costs one
// candidate at most, and the search that is left alone ends well.
//
// FUSETUNE_KILLS says how often each is killed, FUSETUNE_KILL_SEED when; both are printed.
#include <SQLiteCpp/SQLiteCpp.h>
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <random>
#include <thread>

#include "base/number.h"
#include "cli/program.h"

namespace fusetune::cli_test {
namespace {

/// As small as a search gets, and as little timing as gives an answer.
const std::string kSearch =
    "export FUSETUNE_CACHE_DIR='" SEARCH_TEST_CACHE
    "' && exec \"$FUSETUNE\" search --batch 1 --seq 16 --heads 2 --head-size 8 --ffn 32 --layers 2 --isa "
    "generic"
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

  /// Over both tables of measurements; 0 where there are none yet.
  int count(const std::string& what) const {
    if (!std::filesystem::exists(database())) return 0;
    SQLite::Database open(database().string(), SQLite::OPEN_READONLY, kBusyMilliseconds);
    if (!open.tableExists("plan_measurement")) return 0;
    int sum = 0;
    for (const char* table : {"segment_measurement", "plan_measurement"})
      sum += open.execAndGet(fmt::format("SELECT ifnull(sum({}), 0) FROM {}", what, table)).getInt();
    return sum;
  }
  int with_outcome(const std::string& outcome) const { return count("outcome = '" + outcome + "'"); }

  /// Starts a search and kills its process, and no other, `seconds` after it has started so many candidates.
  void kill_one(const std::string& strategy, int candidates, double seconds) const {
    const int target = count("attempts") + candidates;
    const pid_t search = start(strategy);
    const auto limit = Clock::now() + kLongestWait;
    while (candidates > 0 && started_candidates() < target && Clock::now() < limit) sleep_for(0.005);
    sleep_for(seconds);
    EXPECT_EQ(::waitpid(search, nullptr, WNOHANG), 0) << "it ended by itself";
    EXPECT_LT(Clock::now(), limit) << "it starts no candidates";
    ::kill(search, SIGKILL);
    ::waitpid(search, nullptr, 0);
  }
  void expect_sound() const {
    if (!std::filesystem::exists(database())) return;
    const Outcome check = run("\"$FUSETUNE\" db check --db killed.db");
    EXPECT_EQ(check.exit_code, 0) << check.out << check.err;
  }

  base::TemporaryDirectory directory_;

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr int kBusyMilliseconds = 5000;
  static constexpr auto kLongestWait = std::chrono::seconds(120);

  static void sleep_for(double seconds) {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  }
  /// As count(), of a database that is perhaps being made.
  int started_candidates() const {
    try {
      return count("attempts");
    } catch (const SQLite::Exception&) {
      return 0;
    }
  }
  pid_t start(const std::string& strategy) const {
    const std::string script =
        fmt::format("cd '{}' && FUSETUNE='{}' && {} --strategy {} --trials 100000 >/dev/null 2>&1 </dev/null",
                    directory_.path().string(), FUSETUNE_PROGRAM, kSearch, strategy);
    const pid_t child = ::fork();
    if (child == 0) {
      ::execl("/bin/sh", "sh", "-c", script.c_str(), nullptr);
      ::_exit(127);
    }
    return child;
  }
};

TEST_P(KilledSearch, LosesOneCandidateADeathAtMost) {
  const int kills = from_environment("FUSETUNE_KILLS", DEFAULT_KILLS);
  const int seed = from_environment("FUSETUNE_KILL_SEED", static_cast<int>(std::random_device{}() >> 1));
  SCOPED_TRACE(fmt::format("FUSETUNE_KILLS={} FUSETUNE_KILL_SEED={}", kills, seed));
  fmt::print("FUSETUNE_KILLS={} FUSETUNE_KILL_SEED={}\n", kills, seed);
  std::mt19937 random(static_cast<unsigned>(seed));
  int measured = 0, lost = 0;
  for (int killed = 1; killed <= kills && !HasFailure(); ++killed) {
    // Every third before its first candidate: while the database is made, or the one before settled.
    const int candidates = killed % 3 == 0 ? 0 : 1 + static_cast<int>(random() % 4);
    const double seconds = 0.3 * static_cast<double>(random()) / std::mt19937::max();
    SCOPED_TRACE(fmt::format("kill {}, {} s after {} candidates", killed, seconds, candidates));
    kill_one(GetParam(), candidates, seconds);
    expect_sound();
    EXPECT_LE(with_outcome("started"), 1) << "one candidate at a time is at stake";
    EXPECT_LE(count("abandoned") + with_outcome("started"), killed);
    EXPECT_GE(with_outcome("ok"), measured) << "what was measured stays";
    measured = with_outcome("ok");
    lost += with_outcome("started");
  }

  // Enough for a plan: of segments it takes all of one segmentation's.
  const int trials = GetParam() == std::string_view("random") ? 3 : 30;
  const Outcome last = run(fmt::format("{} --strategy {} --trials {}", kSearch, GetParam(), trials));
  EXPECT_EQ(last.exit_code, 0) << last.out << last.err;
  expect_sound();
  EXPECT_EQ(with_outcome("started"), 0) << "the dead ones' candidates are settled";
  // A death before the one before was settled leaves the same candidate.
  EXPECT_LE(count("abandoned"), lost);
  EXPECT_GE(count("abandoned"), std::min(lost, 1)) << "deaths are remembered";
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
