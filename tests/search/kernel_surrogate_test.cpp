// The Gaussian process over kernels, on tables whose truth is known.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "search/kernel_surrogate.h"

namespace fusetune::search {
namespace {

using Kernel = KernelSurrogate::Kernel;

Candidate candidate(int first, int last, lower::HandOff hand_off, int row_block = 64) {
  lower::Schedule schedule;
  schedule.hand_off = hand_off;
  schedule.row_block = row_block;
  return {plan::variant_index({{first, last}, false}), schedule};
}

/// The four matrix products and attention take most of the time.
KernelSurrogate::OperatorTimes alone() {
  KernelSurrogate::OperatorTimes us;
  us.fill(10);
  us[0] = 900;
  us[7] = 300;
  us[10] = us[12] = 1200;
  return us;
}

double alone_us(int first, int last) {
  const auto us = alone();
  return std::accumulate(us.begin() + first, us.begin() + last + 1, 0.0);
}

/// Behind attention pipelines save a fifth of what the operators take alone, all else nothing.
double truth_us(const Candidate& one) {
  const plan::Segment& segment = plan::all_variants()[static_cast<std::size_t>(one.variant)].segment;
  const bool saves = segment.first >= 7 && one.schedule.cpu()->hand_off == lower::HandOff::pipeline;
  return (saves ? 0.8 : 1) * alone_us(segment.first, segment.last);
}

KernelSurrogate fitted(const std::vector<Candidate>& timed) {
  std::vector<KernelSurrogate::Sample> samples;
  for (const Candidate& one : timed) samples.push_back({one, truth_us(one), 0.002 * truth_us(one)});
  KernelSurrogate surrogate(alone());
  surrogate.fit(samples);
  return surrogate;
}

const std::vector<Candidate> kTimed = {
    candidate(0, 0, lower::HandOff::barrier),   candidate(7, 7, lower::HandOff::barrier),
    candidate(10, 10, lower::HandOff::barrier), candidate(12, 12, lower::HandOff::barrier),
    candidate(7, 9, lower::HandOff::pipeline),  candidate(10, 12, lower::HandOff::pipeline),
    candidate(9, 14, lower::HandOff::pipeline)};

TEST(KernelSurrogate, LearnsOfKernelsFromOthersWithTheSameOperators) {
  const KernelSurrogate surrogate = fitted(kTimed);
  const Candidate whole = candidate(7, 14, lower::HandOff::pipeline);
  const auto [mean_us, deviation_us] = surrogate.believe(whole);
  EXPECT_NEAR(mean_us, truth_us(whole), 0.05 * truth_us(whole));
  EXPECT_LT(std::abs(mean_us - truth_us(whole)), 3 * deviation_us);
  EXPECT_LT(mean_us, 0.9 * alone_us(7, 14)) << "its operators alone would say this";
}

TEST(KernelSurrogate, KnowsWhatWasTimedAndDoubtsWhatIsUnlikeIt) {
  const KernelSurrogate surrogate = fitted(kTimed);
  for (const Candidate& one : kTimed) {
    const auto [mean_us, deviation_us] = surrogate.believe(one);
    EXPECT_NEAR(mean_us, truth_us(one), 0.02 * truth_us(one));
    EXPECT_LT(deviation_us, 0.02 * truth_us(one));
  }
  const double near = surrogate.believe(candidate(10, 13, lower::HandOff::pipeline)).deviation_us;
  const double far = surrogate.believe(candidate(10, 13, lower::HandOff::fused, 16)).deviation_us;
  EXPECT_LT(near, 0.7 * far) << "another hand-off, other row blocks";
  // A short kernel is nothing to lose a plan by, however little is known of it.
  EXPECT_LT(surrogate.believe(candidate(1, 2, lower::HandOff::pipeline)).deviation_us, 0.1 * far);
}

TEST(KernelSurrogate, OperatorsThatNoKernelToldOfAreAsAlone) {
  const KernelSurrogate surrogate = fitted({candidate(10, 12, lower::HandOff::pipeline)});
  const auto [mean_us, deviation_us] = surrogate.believe(candidate(0, 7, lower::HandOff::pipeline));
  EXPECT_DOUBLE_EQ(mean_us, alone_us(0, 7));
  EXPECT_GT(deviation_us, 0);
}

TEST(KernelSurrogate, APriorsWordStandsForTheOperatorsAlone) {
  const KernelSurrogate surrogate = fitted({candidate(10, 12, lower::HandOff::pipeline)});
  const Kernel kernel(candidate(0, 7, lower::HandOff::pipeline), 0.75);
  EXPECT_DOUBLE_EQ(surrogate.believe(kernel).mean_us, 0.75 * alone_us(0, 7));
}

TEST(KernelSurrogate, DrawsAreTheBeliefsTogether) {
  const KernelSurrogate surrogate = fitted(kTimed);
  const std::vector<Kernel> kernels = {candidate(0, 9, lower::HandOff::fused),
                                       candidate(0, 9, lower::HandOff::fused, 48),
                                       candidate(12, 14, lower::HandOff::fused)};
  for (const double widening : {1.0, 3.0}) {
    RandomSource random(7);
    const auto draws = surrogate.draw(kernels, 4000, widening, random);
    std::vector<double> mean(3), deviation(3);
    double alike = 0, apart = 0;
    for (const auto& us : draws)
      for (std::size_t i = 0; i < 3; ++i) mean[i] += us[i] / 4000;
    for (const auto& us : draws) {
      for (std::size_t i = 0; i < 3; ++i) deviation[i] += std::pow(us[i] - mean[i], 2) / 4000;
      alike += (us[0] - mean[0]) * (us[1] - mean[1]) / 4000;
      apart += (us[0] - mean[0]) * (us[2] - mean[2]) / 4000;
    }
    for (std::size_t i = 0; i < 3; ++i) {
      const auto belief = surrogate.believe(kernels[i]);
      EXPECT_NEAR(std::sqrt(deviation[i]), widening * belief.deviation_us,
                  0.05 * widening * belief.deviation_us);
      EXPECT_NEAR(mean[i], belief.mean_us, 0.1 * widening * belief.deviation_us);
    }
    EXPECT_GT(alike / std::sqrt(deviation[0] * deviation[1]), 0.8) << "the same operators, rows alike";
    EXPECT_NEAR(apart / std::sqrt(deviation[0] * deviation[2]), 0, 0.1) << "no operator is in both";
  }
}

TEST(KernelSurrogate, SchedulesThatNothingTellsApartCanBeDrawn) {
  const KernelSurrogate surrogate = fitted(kTimed);
  const std::vector<Kernel> twins(40, Kernel(candidate(0, 14, lower::HandOff::fused)));
  RandomSource random(1);
  for (const auto& us : surrogate.draw(twins, 10, 1, random))
    for (const double one : us) EXPECT_NEAR(one, us.front(), 0.02 * us.front());
}

}  // namespace
}  // namespace fusetune::search
