// Two searches at once on one file, one of which is killed: the other goes on with the rows of both.
#include <gmock/gmock.h>

#include <csignal>
#include <future>
#include <nlohmann/json.hpp>

#include "small_search.h"

namespace fusetune::cli_test {
namespace {

class TwoSearches : public SmallSearch {};

// Both ask for the same candidates in the same order.
TEST_F(TwoSearches, OfOneFileMeasureNothingTwiceThoughOneIsKilled) {
  start(" --strategy exhaustive --trials 100000");
  wait_until([&] { return count("attempts") >= 2; });
  std::future<Outcome> other = std::async(std::launch::async, [&] {
    return run(kSmallSearch + " --strategy exhaustive --pairs 20 --trials 30 --json");
  });
  wait_until([&] { return ask("SELECT count(*) FROM search_run") == 2; });
  const int begun = count("attempts");
  wait_until([&] { return count("attempts") >= begun + 6; });
  EXPECT_TRUE(send(SIGKILL)) << "it ended by itself";
  EXPECT_EQ(end(), -SIGKILL);
  const Outcome survivor = other.get();
  ASSERT_EQ(survivor.exit_code, 0) << survivor.err;
  expect_sound();

  const nlohmann::json result = nlohmann::json::parse(survivor.out);
  EXPECT_EQ(result["best"]["outcome"], "ok");
  EXPECT_GE(result["search"]["reused"], 1) << "what the other had measured";
  EXPECT_EQ(ask("SELECT count(*) FROM segment_measurement WHERE outcome = 'ok'"),
            result["search"]["outcomes"]["ok"])
      << "every row of either is an answer, and none is there twice";
  EXPECT_EQ(ask("SELECT count(DISTINCT run) FROM segment_measurement"), 2) << "both have measured";
  EXPECT_EQ(with_outcome("started"), 0) << "the dead one's candidate is settled";
  EXPECT_LE(count("abandoned"), 1);
}

}  // namespace
}  // namespace fusetune::cli_test
