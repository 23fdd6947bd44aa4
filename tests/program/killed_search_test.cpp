// Searches that are killed again and again at random moments: the database stays sound, each death costs one
// candidate at most, and the search that is left alone ends well.
//
// FUSETUNE_KILLS says how often each is killed, FUSETUNE_KILL_SEED when; both are printed.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <random>
#include <string_view>
#include <thread>

#include "base/number.h"
#include "small_search.h"

namespace fusetune::cli_test {
namespace {

int from_environment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  if (text == nullptr) return otherwise;
  return static_cast<int>(base::parse_int(text).value_or(otherwise));
}

class KilledSearch : public SmallSearch, public testing::WithParamInterface<const char*> {
 protected:
  KilledSearch() { fmt::print("FUSETUNE_KILLS={} FUSETUNE_KILL_SEED={}\n", kills_, seed_); }

  /// `trials`: candidates to measure.
  static std::string options(int trials) {
    return fmt::format(" --strategy {} --trials {}", GetParam(), trials);
  }
  /// Enough trials for two finalists: of segments it takes those of one segmentation, with two schedules
  /// each, and some more.
  static int few() { return GetParam() == std::string_view("random") ? 3 : 40; }
  static std::string pairs(int pairs) { return fmt::format(" --pairs {}", pairs); }

  double random_seconds() { return 0.3 * static_cast<double>(random_()) / std::mt19937::max(); }

  /// Kills the search's process, and no other, after so many seconds.
  void kill_after(double seconds) {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    EXPECT_TRUE(send(SIGKILL)) << "it ended by itself";
    EXPECT_EQ(end(), -SIGKILL);
    expect_sound();
    EXPECT_LE(with_outcome("started"), 1) << "one candidate at a time is at stake";
    EXPECT_GE(with_outcome("ok"), measured_) << "what was measured stays";
    measured_ = with_outcome("ok");
    lost_ += with_outcome("started");
  }
  /// A search that is left alone goes on from what the killed ones left, and ends well.
  void expect_good_end() const {
    const Outcome last = run(kSmallSearch + options(few()) + pairs(20));
    EXPECT_EQ(last.exit_code, 0) << last.out << last.err;
    expect_sound();
    EXPECT_EQ(with_outcome("started"), 0) << "the dead ones' candidates are settled";
    EXPECT_GE(with_outcome("ok"), measured_);
    EXPECT_EQ(ask("SELECT count(*) FROM search_run WHERE state = 'running'"), 0);
    EXPECT_EQ(ask("SELECT count(*) FROM search_run WHERE state = 'finished'"), 1);
  }

  const int kills_ = from_environment("FUSETUNE_KILLS", DEFAULT_KILLS);
  const int seed_ = from_environment("FUSETUNE_KILL_SEED", static_cast<int>(std::random_device{}() >> 1));
  std::mt19937 random_{static_cast<unsigned>(seed_)};
  int measured_ = 0, lost_ = 0;
};

TEST_P(KilledSearch, LosesOneCandidateADeathAtMost) {
  for (int killed = 1; killed <= kills_ && !HasFailure(); ++killed) {
    // Every third before its first candidate: while the database is made, or the one before settled.
    const int candidates = killed % 3 == 0 ? 0 : 1 + static_cast<int>(random_() % 4);
    const double seconds = random_seconds();
    SCOPED_TRACE(fmt::format("kill {}, {} s after {} candidates", killed, seconds, candidates));
    const int target = count("attempts") + candidates;
    start(options(100'000) + pairs(20));
    wait_until([&] { return candidates == 0 || count("attempts") >= target; });
    kill_after(seconds);
    EXPECT_LE(count("abandoned") + with_outcome("started"), killed);
  }
  expect_good_end();
  // A death before the one before was settled leaves the same candidate.
  EXPECT_LE(count("abandoned"), lost_);
  EXPECT_GE(count("abandoned"), std::min(lost_, 1)) << "deaths are remembered";
  fmt::print("{} ok, {} abandoned, {} crashed\n", with_outcome("ok"), count("abandoned"),
             with_outcome("crashed"));
}

TEST_P(KilledSearch, InTheFinalsLosesNoTimes) {
  for (int killed = 1; killed <= std::max(1, kills_ / 2) && !HasFailure(); ++killed) {
    const double seconds = random_seconds();
    SCOPED_TRACE(fmt::format("kill {}, {} s after the finals began", killed, seconds));
    start(options(few()) + pairs(100'000));
    wait_until([&] { return in_the_finals(); });
    kill_after(seconds);
  }
  expect_good_end();
}

// A finalist that never ran whole is claimed when it first does: the one that takes the search down is known,
// tried once more, and then left out.
TEST_P(KilledSearch, ByAFinalistTwiceGoesOnWithoutIt) {
  start(options(few()) + pairs(20));
  wait_until([&] { return ask("SELECT count(*) FROM search_run") > 0; });
  kill_after(0);  // it has made the database
  const auto unfused = [&](const std::string& what) {
    return ask("SELECT ifnull(sum(" + what +
               "), 0) FROM plan_measurement WHERE json_array_length(schedules) = 15");
  };
  for (int attempt = 1; attempt <= 2; ++attempt) {
    SCOPED_TRACE(fmt::format("attempt {}", attempt));
    // Holds the search where it gives up that claim.
    for (const char* event : {"DELETE", "UPDATE"})
      execute(
          fmt::format("CREATE TRIGGER hold_{0} BEFORE {0} ON plan_measurement WHEN OLD.outcome = 'started'"
                      " AND OLD.attempts = {1} AND json_array_length(OLD.schedules) = 15 BEGIN"
                      " SELECT count(*) FROM (WITH RECURSIVE endless(x) AS (SELECT 1 UNION ALL"
                      " SELECT x FROM endless) SELECT x FROM endless); END",
                      event, attempt));
    start(options(few()) + pairs(20));
    wait_until([&] { return unfused("outcome = 'started' AND attempts = " + std::to_string(attempt)) == 1; });
    kill_after(0);
    EXPECT_EQ(unfused("outcome = 'started'"), 1) << "the culprit is known";
    for (const char* event : {"DELETE", "UPDATE"}) execute(fmt::format("DROP TRIGGER hold_{}", event));
  }
  expect_good_end();
  EXPECT_EQ(unfused("outcome = 'crashed' AND abandoned = 2"), 1);
  EXPECT_EQ(ask("SELECT count(*) FROM comparison c JOIN plan_measurement p ON p.id = c.plan"
                " WHERE p.abandoned = 2 AND c.outcome = 'crashed'"),
            1)
      << "the report says why it is not among the timed";
}

INSTANTIATE_TEST_SUITE_P(Strategies, KilledSearch, testing::Values("exhaustive", "random"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace fusetune::cli_test
