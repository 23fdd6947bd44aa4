// Timing beside a reference, on a machine whose speed the tests decide: what runs waits instead of computing.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "measure/statistics.h"
#include "measure/timing.h"

namespace fusetune::measure {
namespace {

using backend::cpu::Launch;
using backend::cpu::Runner;
using Clock = std::chrono::steady_clock;

constexpr auto kNever = Clock::time_point::max();

/// A sequence and a reference of half its length, on a machine whose speed a test decides.
class BesideTest : public ::testing::Test {
 protected:
  /// One pass: waits for args->batch microseconds times the machine's slowness, and says who ran.
  static void wait(const ft_args* args, int /*thread*/, int /*threads*/, ft_barrier* /*barrier*/) {
    auto& test = *reinterpret_cast<BesideTest*>(args->scratch);
    const bool is_reference = args == &test.reference_args;
    if (is_reference && test.speed_flaps) test.slowness = test.slowness == 1 ? 2 : 1;
    test.ran += is_reference ? 'r' : 'c';
    const auto end = Clock::now() + std::chrono::microseconds(args->batch * test.slowness);
    while (Clock::now() < end) ft_pause();
  }

  BesideTest() {
    args.batch = 2000;
    reference_args.batch = 1000;
    for (ft_args* each : {&args, &reference_args}) each->scratch = reinterpret_cast<char*>(this);
    sequence.copies = {{Launch{wait, &args}}};
    reference_sequence.copies = {{Launch{wait, &reference_args}}};
    sequence.inspect = [this] { ran += 'i'; };
    for (TimedSequence* each : {&sequence, &reference_sequence}) timer.sample(*each);  // calibrates
    ran.clear();
  }

  int slowness = 1;
  bool speed_flaps = false;  // between a reference's passes
  std::string ran;
  ft_args args{}, reference_args{};
  TimedSequence sequence, reference_sequence;
  Runner runner{1};
  Timer timer{runner, CacheMode::model, 1e-4, 0};
  Reference reference{&reference_sequence, 5000};  // by agreement
};

TEST_F(BesideTest, EveryGroupStandsBetweenReferencesAndIsInspectedFirst) {
  const SampleSeries series = timer.series(sequence, 3, kNever, reference);
  if (series.dropped > 0) GTEST_SKIP() << "this machine is too busy to time anything";
  EXPECT_EQ(ran, "rcircircir");  // a sample lasts longer than one of the reference: groups of one
  EXPECT_EQ(series.samples_us.size(), 3u);
}

TEST_F(BesideTest, ShortSamplesShareReferences) {
  args.batch = 300;
  const SampleSeries series = timer.series(sequence, 8, kNever, reference);
  if (series.dropped > 0) GTEST_SKIP() << "this machine is too busy to time anything";
  EXPECT_EQ(ran, "rccccirccccir");
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
  if (series.outcome == Outcome::noisy) GTEST_SKIP() << "this machine is too busy to time anything";
  EXPECT_EQ(series.samples_us.size(), 4u);
  EXPECT_GE(series.dropped, 4);  // as many again as it needs, then they count
  EXPECT_LE(series.dropped, 2 * 4);
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
