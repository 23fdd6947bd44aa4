#include "search/certificate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace fusetune::search {
namespace {

/// Every operator alone takes 10 us; all of them fused, if given, `fused_us`.
std::vector<TimedEdge> times(double mad_us, int samples, double fused_us = 0) {
  std::vector<TimedEdge> edges;
  for (int op = 0; op < 15; ++op)
    edges.push_back({plan::variant_index({{op, op}, false}), 10, mad_us, samples});
  if (fused_us > 0) edges.push_back({plan::variant_index({{0, 14}, false}), fused_us, mad_us, samples});
  return edges;
}

TEST(Certificate, WithoutNoiseItIsThePlanOverTheCheapestSum) {
  const auto found = certify(times(0, 12), 165, 1);
  ASSERT_TRUE(found);
  EXPECT_NEAR(found->gain, 0.1, 1e-12);
  EXPECT_EQ(found->rival, plan::FusionPlan::unfused());
  EXPECT_FALSE(found->closed(0.02));
  EXPECT_TRUE(found->closed(0.11));
}

TEST(Certificate, ASmallerShareOfTheSumAllowsFasterPlans) {
  EXPECT_DOUBLE_EQ(certify(times(0, 12), 150, 0.8)->gain, 0.25);
  EXPECT_DOUBLE_EQ(certify(times(0, 12), 150, 1.5)->gain, 0) << "nothing is faster";
}

TEST(Certificate, NamesThePlanThatCouldBeFaster) {
  const auto found = certify(times(0, 12, 120), 150, 1);
  EXPECT_EQ(found->rival, plan::FusionPlan::all_fused());
  EXPECT_DOUBLE_EQ(found->gain, 0.25);
}

TEST(Certificate, NoiseLowersTheLimitsAndMoreSamplesRaiseThem) {
  const plan::VariantCosts few = lower_limits(times(0.1, 12)), many = lower_limits(times(0.1, 1200));
  const auto alone = static_cast<std::size_t>(plan::variant_index({{0, 0}, false}));
  // Fifteen limits together at 95 %: z = 2.713 (one-sided, 0.05 / 15), standard error 0.1858 / sqrt(12).
  EXPECT_NEAR(few[alone], 10 - 2.713 * 0.18581 / std::sqrt(12.0), 2e-4);
  EXPECT_GT(many[alone], few[alone]);
  EXPECT_LT(many[alone], 10);
  EXPECT_GT(certify(times(0.1, 12), 150, 1)->gain, certify(times(0.1, 1200), 150, 1)->gain);
}

TEST(Certificate, OfAVariantsSchedulesTheOneThatCouldBeFastestCounts) {
  std::vector<TimedEdge> edges = times(0, 12);
  edges.push_back({edges[4].variant, 11, 5, 12});  // slower in the median, but far less certain
  EXPECT_LT(lower_limits(edges)[static_cast<std::size_t>(edges[4].variant)], 10);
}

TEST(Certificate, WithoutACompletePlanThereIsNone) {
  std::vector<TimedEdge> edges = times(0, 12);
  const int missing = edges[3].variant;
  edges.erase(edges.begin() + 3);
  EXPECT_FALSE(certify(edges, 150, 1));
  EXPECT_TRUE(std::isinf(lower_limits(edges)[static_cast<std::size_t>(missing)]));
  EXPECT_FALSE(certify({}, 150, 1));
}

/// Every operator alone takes 10 us; [0-1] takes `pair_us`.
std::vector<BoundedEdge> with_pair(double pair_us) {
  std::vector<BoundedEdge> edges = limits(times(0, 12));
  edges.push_back({plan::variant_index({{0, 1}, false}), pair_us});
  return edges;
}

TEST(ProvedIrrelevant, IsWhatNoPlanFastEnoughHolds) {
  // The plan with [0-1] takes 155 at least.
  EXPECT_TRUE(proved_irrelevant(with_pair(25), 150, 1).back());
  EXPECT_FALSE(proved_irrelevant(with_pair(25), 156, 1).back());
  EXPECT_FALSE(proved_irrelevant(with_pair(25), 150, 0.9).back())
      << "whole plans may take less than their sum";
  EXPECT_FALSE(proved_irrelevant(with_pair(20), 150, 1).back()) << "as fast is not slower";
  EXPECT_FALSE(proved_irrelevant(with_pair(0), 150, 1).back()) << "nothing is known of it";
}

// Where all ways to a kernel are too slow it is dropped too, although it may itself take no time at all.
TEST(ProvedIrrelevant, CountsTheWaysToAKernel) {
  std::vector<BoundedEdge> edges = {{plan::variant_index({{0, 14}, false}), 100},
                                    {plan::variant_index({{0, 6}, false}), 60},
                                    {plan::variant_index({{7, 14}, false}), 60},
                                    {plan::variant_index({{7, 14}, false}), 0}};
  EXPECT_EQ(proved_irrelevant(edges, 100, 1), (std::vector<bool>{false, false, true, false}));
  edges[1].least_us = 101;
  EXPECT_EQ(proved_irrelevant(edges, 100, 1), (std::vector<bool>{false, true, true, true}));
}

TEST(Certificate, SpeaksOfKernelsThatWereNotTimedByTheirLowerLimit) {
  EXPECT_NEAR(certify_bounded(with_pair(5), 150, 1)->gain, 150.0 / 135 - 1, 1e-12);
  EXPECT_EQ(certify_bounded(with_pair(20), 150, 1)->gain, 0);
}

}  // namespace
}  // namespace fusetune::search
