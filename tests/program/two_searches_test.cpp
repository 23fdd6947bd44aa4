// Two searches of one problem on one file at once, one of which is killed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <future>
#include <nlohmann/json.hpp>

#include "program/small_search.h"

namespace fusetune::cli_test {
namespace {

class TwoSearches : public SmallSearch {};

/// Both ask for the same candidates in the same order.
TEST_F(TwoSearches, OfOneFileMeasureNothingTwiceThoughOneIsKilled) {
  start(" --strategy exhaustive --trials 100000 --pairs 20");
  wait_until([&] { return count("attempts") >= 2; });
  std::future<Outcome> survivor = std::async(std::launch::async, [&] {
    return run(kSmallSearch + " --strategy exhaustive --trials 40 --pairs 20 --json=survivor.json");
  });
  wait_until([&] { return ask("SELECT count(*) FROM search_run") == 2; });
  const int measured = count("attempts");
  wait_until([&] { return count("attempts") >= measured + 6; });
  EXPECT_TRUE(send(SIGKILL)) << "it ended by itself";
  EXPECT_EQ(end(), -SIGKILL);
  const Outcome last = survivor.get();
  ASSERT_EQ(last.exit_code, 0) << last.out << last.err;
  expect_sound();

  const nlohmann::json result = nlohmann::json::parse(base::read_file(at("survivor.json")));
  EXPECT_EQ(result["best"]["outcome"], "ok");
  EXPECT_GE(result["search"]["measured"], 1);
  EXPECT_GE(result["search"]["reused"], 1) << "what the other had measured";
  EXPECT_GE(ask("SELECT count(DISTINCT run) FROM segment_measurement"), 2) << "both have measured";
  EXPECT_EQ(ask("SELECT count(*) FROM segment_measurement WHERE outcome = 'ok'"),
            result["search"]["outcomes"]["ok"])
      << "every row of either is an answer of the survivor's, and none is there twice";
  EXPECT_EQ(with_outcome("started"), 0) << "the dead one's candidate is settled";
  EXPECT_LE(count("abandoned"), 1);
}

}  // namespace
}  // namespace fusetune::cli_test
