#include "search/pruning_threshold.h"

#include <gtest/gtest.h>

#include <cmath>

#include "search/random_source.h"

namespace fusetune::search {
namespace {

TEST(PruningThreshold, IsARankAmongTheFastOnes) {
  std::vector<double> probabilities;
  for (int i = 1; i <= 39; ++i) probabilities.push_back(0.01 * i);
  const PruningThreshold found = choose_threshold(probabilities);
  EXPECT_DOUBLE_EQ(found.probability, 0.02) << "the second of 39: 0.05 * 40";
  EXPECT_DOUBLE_EQ(found.chance, 0.05);
  EXPECT_EQ(found.fast, 39);
}

TEST(PruningThreshold, SaysSoWhereFewAreKnown) {
  EXPECT_DOUBLE_EQ(choose_threshold({0.4, 0.2, 0.3}).probability, 0.2);
  EXPECT_DOUBLE_EQ(choose_threshold({0.4, 0.2, 0.3}).chance, 0.25);
  EXPECT_EQ(choose_threshold({}).chance, 1);
}

TEST(PruningThreshold, NeverAboveAHalf) {
  EXPECT_EQ(choose_threshold(std::vector<double>(30, 0.9)).probability, 0.5);
}

// One more of the same kind is pruned no more often than it says.
TEST(PruningThreshold, CoversAsItSays) {
  RandomSource random(1);
  for (const int count : {5, 19, 47}) {
    constexpr int kTrials = 4000;
    int pruned = 0;
    double chance = 1;
    for (int trial = 0; trial < kTrials; ++trial) {
      std::vector<double> probabilities;
      for (int i = 0; i < count; ++i) probabilities.push_back(0.4 * random.unit());
      const PruningThreshold found = choose_threshold(probabilities);
      chance = found.chance;
      pruned += 0.4 * random.unit() < found.probability ? 1 : 0;
    }
    EXPECT_LE(pruned, kTrials * chance + 3 * std::sqrt(kTrials * chance)) << count;
    EXPECT_GE(pruned, 0.5 * kTrials * chance) << count << ": no more careful than it has to be";
  }
}

}  // namespace
}  // namespace fusetune::search
