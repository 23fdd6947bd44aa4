// Timing beside a reference, on a machine whose speed the tests decide: what runs waits instead of computing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "measure/statistics.h"
#include "measure/timing.h"
#include "scripted_executor.h"

namespace fusetune::measure {
namespace {

using ::testing::MatchesRegex;
using Clock = std::chrono::steady_clock;

constexpr auto kNever = Clock::time_point::max();
constexpr auto kOneAttempt = Clock::time_point::min();  // a second would be seen in `ran` only

/// A sequence and a reference of half its length, on a machine whose speed a test decides.
class BesideTest : public ::testing::Test {
 protected:
  BesideTest() {
    sequence.kernels = &kernels;
    reference_sequence.kernels = &reference_kernels;
    sequence.inspect = [this] { ran += 'i'; };
    for (TimedSequence* each : {&sequence, &reference_sequence}) timer.sample(*each);  // calibrates
    ran.clear();
  }

  /// One pass: waits for so long times the machine's slowness, and says who ran.
  void wait(std::chrono::microseconds time, bool is_reference) {
    const bool begins_turn = is_reference && !ran.ends_with('r');
    if (begins_turn && speed_flaps) slowness = slowness == 1 ? 2 : 1;
    ran += is_reference ? 'r' : 'c';
    spin_for(time * slowness);
  }

  int slowness = 1;
  bool speed_flaps = false;  // between a reference's turns
  std::string ran;
  std::chrono::microseconds pass_time{2000};
  ScriptedSequence kernels{[this](int) { wait(pass_time, false); }};
  ScriptedSequence reference_kernels{[this](int) { wait(std::chrono::microseconds(1000), true); }};
  TimedSequence sequence, reference_sequence;
  ScriptedExecutor executor;
  Timer timer{executor, CacheMode::model, 1e-4};
  Reference reference{&reference_sequence, 5000};  // by agreement
};

TEST_F(BesideTest, EveryGroupStandsBetweenReferencesAndIsInspectedFirst) {
  const SampleSeries series = timer.series(sequence, 12, kOneAttempt, reference);
  if (series.dropped > 0) GTEST_SKIP() << "this machine is too busy to time anything";
  // The first pass of a turn is untimed; a sample lasts longer than one of the reference: groups of six.
  EXPECT_EQ(ran, "rrrcccccccirrrcccccccirrr");
  EXPECT_EQ(series.samples_us.size(), 12u);
}

TEST_F(BesideTest, ShortSamplesShareReferences) {
  pass_time = std::chrono::microseconds(270);  // eight last as long as two of the reference
  const SampleSeries series = timer.series(sequence, 16, kOneAttempt, reference);
  if (series.dropped > 0) GTEST_SKIP() << "this machine is too busy to time anything";
  // 270 us each, give or take what the machine does: eight or more samples in a group, none left alone.
  EXPECT_THAT(ran, MatchesRegex("rrrc{8,12}irrrc{8,12}irrr|rrrc{17}irrr"));
}

TEST_F(BesideTest, TimesAreInUnitsOfTheReferenceWhateverTheMachinesSpeed) {
  std::vector<double> medians;
  for (const int now : {1, 3}) {
    slowness = now;
    const SampleSeries series = timer.series(sequence, 12, kNever, reference);
    if (series.outcome == Outcome::noisy) GTEST_SKIP() << "this machine is too busy to time anything";
    EXPECT_NEAR(series.slowdown, now / 5.0, 0.35 * now / 5.0);  // 1000 us where 5000 are agreed
    medians.push_back(median(series.samples_us));
  }
  for (const double us : medians) EXPECT_NEAR(us, 10000, 2500);  // twice the reference
  EXPECT_NEAR(medians[1] / medians[0], 1, 0.25);                 // the clock said 3
}

TEST_F(BesideTest, SamplesWhileTheSpeedChangesAreTakenAgainWithinLimits) {
  speed_flaps = true;  // never two equal references in a row
  const SampleSeries series = timer.series(sequence, 4, kNever, reference);
  if (series.message.find("CPU time") != std::string::npos)
    GTEST_SKIP() << "this machine is too busy to time anything";
  EXPECT_EQ(series.samples_us.size(), 4u);
  EXPECT_GE(series.dropped, 4);  // as many again as it needs, then they count
  EXPECT_LE(series.dropped, 2 * 4);
}

// Where the reference was disturbed and the candidate was not, it would seem faster than it is.
TEST_F(BesideTest, SamplesThatNeverAgreeMakeNoTime) {
  speed_flaps = true;
  const SampleSeries series = timer.series(sequence, 12, kNever, reference);
  EXPECT_EQ(series.outcome, Outcome::noisy);
  if (series.message.find("CPU time") != std::string::npos)
    GTEST_SKIP() << "this machine is too busy to time anything";
  EXPECT_NE(series.message.find("was not steady"), std::string::npos) << series.message;
}

TEST_F(BesideTest, TheLevelIsThatOfTheMachineUndisturbed) {
  // The first half second is slow.
  const auto start = Clock::now();
  slowness = 4;
  reference_sequence.prepare = [&] {
    if (Clock::now() - start > std::chrono::milliseconds(500)) slowness = 1;
  };
  EXPECT_NEAR(timer.level(reference_sequence), 1000, 400);
}

}  // namespace
}  // namespace fusetune::measure
