#include "cli/progress_line.h"

#include <gtest/gtest.h>

namespace fusetune::cli {
namespace {

TEST(ProgressLine, RateAndTimeLeft) {
  EXPECT_EQ(progress_line({.unit = "candidates", .done = 30, .expected = 90, .seconds = 10}),
            "30/90 candidates, 3.0/s, about 20 s left");
  EXPECT_EQ(progress_line({.stage = "finals, round 1",
                           .unit = "samples",
                           .done = 100,
                           .expected = 1000,
                           .at_most = true,
                           .seconds = 2}),
            "finals, round 1: 100/1000 samples, 50.0/s, at most 18 s left");
  EXPECT_EQ(
      progress_line({.unit = "plans", .done = 4, .expected = 6, .seconds = 2, .doing = "compiling 3/32"}),
      "4/6 plans, 2.0/s, about 1 s left, compiling 3/32");
}

TEST(ProgressLine, LongTimesAndSlowRates) {
  EXPECT_EQ(progress_line({.unit = "plans", .done = 10, .expected = 310, .seconds = 20}),
            "10/310 plans, 0.5/s, about 10 min left");
  EXPECT_EQ(progress_line({.unit = "plans", .done = 2, .expected = 602, .seconds = 60}),
            "2/602 plans, 2.0/min, about 5.0 h left");
}

// A resumed search: what the store answered took no time and says nothing about the rest.
TEST(ProgressLine, ReusedOnesAreNoPartOfTheRate) {
  EXPECT_EQ(progress_line({.unit = "candidates", .done = 110, .reused = 100, .expected = 130, .seconds = 10}),
            "110/130 candidates, 1.0/s, about 20 s left");
  EXPECT_EQ(progress_line({.unit = "candidates", .done = 100, .reused = 100, .expected = 130, .seconds = 10}),
            "100/130 candidates");
}

TEST(ProgressLine, TrialsBoundTheTotal) {
  // 40 known ones and 5 of 25 trials: 65 in all, whatever the strategy would like.
  EXPECT_EQ(
      progress_line(
          {.unit = "plans", .done = 45, .reused = 40, .expected = 500, .trials_left = 20, .seconds = 10}),
      "45/65 plans, 0.5/s, about 40 s left");
  EXPECT_EQ(progress_line({.unit = "plans", .done = 5, .expected = 9, .trials_left = 20, .seconds = 5}),
            "5/9 plans, 1.0/s, about 4 s left");
  EXPECT_EQ(progress_line({.unit = "plans", .done = 5, .trials_left = 20, .seconds = 5}),
            "5/25 plans, 1.0/s, about 20 s left");
}

TEST(ProgressLine, UnknownTotalsGiveNoTimeLeft) {
  EXPECT_EQ(progress_line({.unit = "plans", .done = 30, .seconds = 10}), "30 plans, 3.0/s");
  EXPECT_EQ(progress_line({.unit = "plans", .done = 30, .seconds = 10, .seconds_left = 50}),
            "30 plans, 3.0/s, at most 50 s left");
}

TEST(ProgressLine, TheTimeLimitBoundsTheTimeLeft) {
  StageProgress progress{.unit = "plans", .done = 10, .expected = 110, .seconds = 10, .seconds_left = 15};
  EXPECT_EQ(progress_line(progress), "10/110 plans, 1.0/s, about 15 s left");
  progress.seconds_left = 1000;
  EXPECT_EQ(progress_line(progress), "10/110 plans, 1.0/s, about 2 min left");
  progress.seconds_left = -1;  // the last candidate ends after the limit
  EXPECT_EQ(progress_line(progress), "10/110 plans, 1.0/s");
  progress.done = 0;
  progress.seconds_left = 15;
  EXPECT_EQ(progress_line(progress), "0/110 plans, at most 15 s left");
}

TEST(ProgressLine, NothingLeftSaysNothing) {
  EXPECT_EQ(progress_line({.unit = "plans", .done = 9, .expected = 9, .seconds = 3}), "9/9 plans, 3.0/s");
  EXPECT_EQ(progress_line({.unit = "plans", .done = 12, .expected = 9, .seconds = 3}), "12/12 plans, 4.0/s");
}

}  // namespace
}  // namespace fusetune::cli
