// The timer with launches that count instead of computing. What it measures is not asserted, how it measures
// is.
#include "measure/timing.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <vector>

namespace fusetune::measure {
namespace {

using backend::cpu::Launch;
using backend::cpu::Runner;
using Clock = std::chrono::steady_clock;

constexpr auto kNever = Clock::time_point::max();

/// args->batch is the number of the weight copy; args->scratch a log of the passes.
void log_and_wait(const ft_args* args, int /*thread*/, int /*threads*/, ft_barrier* /*barrier*/) {
  reinterpret_cast<std::vector<long>*>(args->scratch)->push_back(args->batch);
  const auto end = Clock::now() + std::chrono::microseconds(20);
  while (Clock::now() < end) ft_pause();
}

class TimingTest : public ::testing::Test {
 protected:
  TimingTest() : args(3) {
    for (std::size_t copy = 0; copy < args.size(); ++copy) {
      args[copy].batch = static_cast<long>(copy);
      args[copy].scratch = reinterpret_cast<char*>(&passes);
      sequence.copies.push_back({Launch{log_and_wait, &args[copy]}});
    }
    sequence.prepare = [this] { ++prepared; };
  }

  std::vector<long> passes;
  int prepared = 0;
  std::vector<ft_args> args;
  TimedSequence sequence;
  Runner runner{1};
};

TEST_F(TimingTest, ASampleLastsLongEnoughAndRotatesTheCopies) {
  Timer timer(runner, CacheMode::model, 1e-3, 0);
  timer.sample(sequence);
  const long last = passes.back();
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
    EXPECT_EQ(passes[i], (last + 1 + static_cast<long>(i)) % 3);  // goes on where the previous sample ended
  }
}

TEST_F(TimingTest, ColdIsOnePassAtATime) {
  Timer timer(runner, CacheMode::cold, 1e-3, 1 << 20);
  timer.sample(sequence);
  passes.clear();
  timer.sample(sequence);
  timer.sample(sequence);
  EXPECT_EQ(passes.size(), 2U);
}

TEST_F(TimingTest, ASeriesIsCompleteOrNoisy) {
  Timer timer(runner, CacheMode::warm, 1e-4, 0);
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

TEST(RotationBytes, TheModelsWeightsOrWhatExceedsTheCache) {
  block::Problem problem;  // BERT-base: 12 * 768^2 floats in a layer
  const std::int64_t layer = std::int64_t{12} * 768 * 768 * 4;
  problem.layers = 2;
  EXPECT_EQ(rotation_bytes(CacheMode::model, problem, 0), 2 * layer);
  problem.layers = 12;
  EXPECT_EQ(rotation_bytes(CacheMode::model, problem, 0), 128 << 20);
  EXPECT_EQ(rotation_bytes(CacheMode::model, problem, 64 << 20), 256 << 20);
  EXPECT_EQ(rotation_bytes(CacheMode::model, problem, std::int64_t{1} << 30), 12 * layer);
  EXPECT_EQ(rotation_bytes(CacheMode::warm, problem, 0), 0);
  EXPECT_EQ(rotation_bytes(CacheMode::cold, problem, 0), 0);
}

}  // namespace
}  // namespace fusetune::measure
