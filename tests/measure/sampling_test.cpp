// How a sample is taken, with actions that say how long they took instead of taking it.
#include "measure/sampling.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <vector>

namespace fusetune::measure {
namespace {

/// Pretends to take `seconds(passes)` and remembers how it was called.
struct FakeAction {
  std::function<double(int passes)> seconds;
  std::vector<int> calls;

  Passes passes() {
    return [this](int count) {
      calls.push_back(count);
      return seconds(count);
    };
  }
  double total() const {
    double sum = 0;
    for (const int count : calls) sum += seconds(count);
    return sum;
  }
};

TEST(CalibratedPasses, LastLongEnoughWithSomeToSpare) {
  FakeAction action{[](int passes) { return passes * 20e-6; }, {}};
  EXPECT_EQ(calibrated_passes(action.passes(), 1e-3), 55);  // 1.1 ms
  EXPECT_EQ(action.calls.back(), 55) << "tried before it is believed";
  EXPECT_GE(action.total(), kWarmUpSeconds);
}

TEST(CalibratedPasses, OneWhereAPassLastsLongEnough) {
  FakeAction action{[](int passes) { return passes * 10e-3; }, {}};
  EXPECT_EQ(calibrated_passes(action.passes(), 1e-3), 1);
  EXPECT_EQ(action.calls, (std::vector<int>{1, 1, 1, 1})) << "long passes need no long warm-up";
}

TEST(CalibratedPasses, AreMoreWhereALonePassLooksSlower) {
  // 10 us to start the clock: 74 passes by what one takes alone, which last 0.38 ms.
  FakeAction action{[](int passes) { return 10e-6 + passes * 5e-6; }, {}};
  const int passes = calibrated_passes(action.passes(), 1e-3);
  EXPECT_GE(action.seconds(passes), 1e-3);
  EXPECT_LE(action.seconds(passes), 1.2e-3);
  EXPECT_EQ(action.calls.back(), passes);
}

TEST(CalibratedPasses, TheFirstPassOnlyWarmsUp) {
  int calls = 0;
  const Passes run = [&calls](int passes) { return ++calls == 1 ? 0.5 : passes * 20e-6; };
  EXPECT_EQ(calibrated_passes(run, 1e-3), 55);
  EXPECT_GE(calls * 20e-6, kWarmUpSeconds) << "and is not all of the warm-up";
}

TEST(CalibratedPasses, HaveALimit) {
  FakeAction action{[](int passes) { return passes * 1e-12; }, {}};
  EXPECT_EQ(calibrated_passes(action.passes(), 1e-3), kMaximumPasses);
}

TEST(TakeSample, GivesTheSecondsOfOnePass) {
  FakeAction action{[](int passes) { return passes * 20e-6; }, {}};
  EXPECT_DOUBLE_EQ(take_sample(action.passes(), 50, 1).seconds, 20e-6);
  EXPECT_EQ(action.calls, std::vector<int>{50});
}

/// What two threads saw that worked for 10 ms, `lost` seconds of it (both together) on no CPU.
bool two_threads_interrupted(double lost, long switches) {
  const ProcessTimes before{7, 3.0, {}};
  const ProcessTimes after{7 + switches, 3.0 + 2 * 10e-3 - lost, before.when + std::chrono::milliseconds(10)};
  return was_interrupted(before, after, 2);
}

TEST(WasInterrupted, NeedsASwitchAndATimeLost) {
  EXPECT_FALSE(two_threads_interrupted(0, 0));
  EXPECT_FALSE(two_threads_interrupted(0, 3)) << "a switch that cost nothing";
  EXPECT_FALSE(two_threads_interrupted(5e-3, 0)) << "waiting of its own accord";
  EXPECT_TRUE(two_threads_interrupted(5e-3, 1));
}

TEST(WasInterrupted, CountsTheShareOfAllThreadsTime) {
  const double allowed = kStolenShare * 2 * 10e-3;
  EXPECT_FALSE(two_threads_interrupted(0.9 * allowed, 1));
  EXPECT_TRUE(two_threads_interrupted(1.1 * allowed, 1));
}

TEST(ProcessTimesNow, CountsTheTimeThisProcessComputes) {
  const ProcessTimes before = ProcessTimes::now();
  ProcessTimes after = before;
  while (after.cpu_seconds - before.cpu_seconds < 1e-3) after = ProcessTimes::now();
  EXPECT_GE(after.involuntary_switches, before.involuntary_switches);
  EXPECT_GE(std::chrono::duration<double>(after.when - before.when).count(), 0.9e-3);
}

TEST(IsNoisy, MoreThanAFifth) {
  EXPECT_FALSE(is_noisy(0, 0));
  EXPECT_FALSE(is_noisy(2, 10));
  EXPECT_TRUE(is_noisy(3, 10));
  EXPECT_TRUE(is_noisy(11, 11));
}

TEST(MiddleValue, OfOddAndEvenCounts) {
  EXPECT_EQ(middle_value({3}), 3);
  EXPECT_EQ(middle_value({9, 1, 5}), 5);
  EXPECT_EQ(middle_value({9, 1, 5, 2}), 3.5);
}

}  // namespace
}  // namespace fusetune::measure
