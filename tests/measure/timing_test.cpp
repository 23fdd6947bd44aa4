// The timer with launches that count instead of computing. What it measures is not asserted, how it measures
// is.
#include "measure/timing.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <vector>

#include "scripted_executor.h"

namespace fusetune::measure {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kNever = Clock::time_point::max();

class TimingTest : public ::testing::Test {
 protected:
  TimingTest() {
    sequence.kernels = &kernels;
    sequence.copies = kernels.ready();
    sequence.prepare = [this] { ++prepared; };
  }

  std::vector<int> passes;  // their weight copies
  int prepared = 0;
  ScriptedSequence kernels{[this](int copy) {
                             passes.push_back(copy);
                             spin_for(std::chrono::microseconds(20));
                           },
                           3};
  TimedSequence sequence;
  ScriptedExecutor executor;
};

TEST_F(TimingTest, ASampleLastsLongEnoughAndRotatesTheCopies) {
  Timer timer(executor, CacheMode::model, 1e-3);
  timer.sample(sequence);
  const int last = passes.back();
  passes.clear();
  prepared = 0;
  const Sample sample = timer.sample(sequence);
  EXPECT_EQ(prepared, 1);
  EXPECT_EQ(static_cast<int>(passes.size()), sequence.passes);
  EXPECT_GE(sequence.passes, 10);  // 20 us each, or more where the machine is busy
  EXPECT_LE(sequence.passes, 1000);
  EXPECT_GE(sample.seconds, 20e-6);
  EXPECT_TRUE(std::isfinite(sample.seconds));
  EXPECT_GE(sample.seconds * sequence.passes, 1e-3 * 0.9);
  for (std::size_t i = 0; i < passes.size(); ++i) {
    EXPECT_EQ(passes[i], (last + 1 + static_cast<int>(i)) % 3);  // goes on where the previous sample ended
  }
}

TEST_F(TimingTest, ColdIsOnePassAtATime) {
  Timer timer(executor, CacheMode::cold, 1e-3);
  timer.sample(sequence);
  passes.clear();
  timer.sample(sequence);
  timer.sample(sequence);
  EXPECT_EQ(passes.size(), 2U);
  EXPECT_EQ(executor.flushes, 1 + 3);  // calibrating runs one pass
}

TEST_F(TimingTest, OnlyColdFlushesCaches) {
  Timer(executor, CacheMode::model, 1e-4).sample(sequence);
  Timer(executor, CacheMode::warm, 1e-4).sample(sequence);
  EXPECT_EQ(executor.flushes, 0);
}

TEST_F(TimingTest, TheRotationGoesOnFromOneSequenceToTheNext) {
  Timer timer(executor, CacheMode::model, 1e-4);
  TimedSequence other = sequence;
  timer.sample(sequence);
  timer.sample(other);
  const int last = passes.back();
  passes.clear();
  timer.sample(sequence);
  EXPECT_EQ(passes.front(), (last + 1) % 3);  // what the other has read longest ago
}

TEST_F(TimingTest, ATurnBeginsWhenTheCachesAreItsOwn) {
  struct Case {
    CacheMode mode;
    bool copies_stay;
    int untimed;
  };
  for (const Case& one : {Case{CacheMode::model, true, 3}, Case{CacheMode::model, false, 1},
                          Case{CacheMode::warm, false, 1}, Case{CacheMode::cold, true, 0}}) {
    Timer timer(executor, one.mode, 1e-9, one.copies_stay);  // a pass is long enough for a sample
    timer.sample(sequence);
    passes.clear();
    EXPECT_EQ(timer.turn(sequence, 4).size(), 4U);
    EXPECT_EQ(static_cast<int>(passes.size()), one.untimed + 4) << name(one.mode);
  }
}

TEST_F(TimingTest, AStampedPassGoesOnWithTheCopies) {
  Timer timer(executor, CacheMode::model, 1e-4);
  timer.sample(sequence);
  const int last = passes.back();
  passes.clear();
  const StampedPass pass = timer.stamped_pass(sequence);
  timer.stamped_pass(sequence);
  EXPECT_EQ(passes, (std::vector<int>{(last + 1) % 3, (last + 2) % 3}));
  ASSERT_EQ(pass.run.times.size(), 2U);
  EXPECT_GE(pass.run.times[1] - pass.run.times[0], 20e-6);
}

TEST_F(TimingTest, ASeriesIsCompleteOrNoisy) {
  Timer timer(executor, CacheMode::warm, 1e-4);
  const SampleSeries series = timer.series(sequence, 10, kNever);
  if (series.outcome == Outcome::ok) {
    EXPECT_EQ(series.samples_us.size(), 10U);
    EXPECT_LE(series.dropped, 2);
  } else {
    EXPECT_EQ(series.outcome, Outcome::noisy);
    EXPECT_EQ(series.dropped, 3);
  }
  for (const double sample : series.samples_us) EXPECT_GE(sample, 20);
}

TEST(LeastSeriesSeconds, CountsTurns) {
  EXPECT_DOUBLE_EQ(least_series_seconds(12, 3, 0), 13 * 3);
  EXPECT_DOUBLE_EQ(least_series_seconds(12, 3, 2), 2 * 7 * 3 + 3 * 3 * 2);
  EXPECT_DOUBLE_EQ(least_series_seconds(12, 1, 5), 13 * 1 + 2 * 3 * 5);  // ten last as long as two references
  EXPECT_DOUBLE_EQ(least_series_seconds(3, 1, 5), 4 * 1 + 2 * 3 * 5);
}

TEST(RotationBytes, TheModelsWeightsOrWhatExceedsTheCache) {
  block::Problem problem;  // BERT-base: 12 * 768^2 floats in a layer
  const std::int64_t layer = std::int64_t{12} * 768 * 768 * 4;
  problem.layers = 2;
  EXPECT_EQ(rotation_bytes(CacheMode::model, problem, 0), 2 * layer);
  problem.dtype = block::Dtype::f16;
  EXPECT_EQ(rotation_bytes(CacheMode::model, problem, 0), layer);
  problem.dtype = block::Dtype::f32;
  problem.layers = 12;
  EXPECT_EQ(rotation_bytes(CacheMode::model, problem, 0), 128 << 20);
  EXPECT_EQ(rotation_bytes(CacheMode::model, problem, 64 << 20), 256 << 20);
  EXPECT_EQ(rotation_bytes(CacheMode::model, problem, std::int64_t{1} << 30), 12 * layer);
  EXPECT_EQ(rotation_bytes(CacheMode::warm, problem, 0), 0);
  EXPECT_EQ(rotation_bytes(CacheMode::cold, problem, 0), 0);
}

}  // namespace
}  // namespace fusetune::measure
