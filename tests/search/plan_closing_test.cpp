#include "search/plan_closing.h"

#include <gtest/gtest.h>

#include <vector>

namespace fusetune::search {
namespace {

/// Every operator alone takes 10 us.
std::vector<TimedEdge> edges(double mad_us) {
  std::vector<TimedEdge> all;
  for (int op = 0; op < 15; ++op) all.push_back({plan::variant_index({{op, op}, false}), 10, mad_us, 12});
  return all;
}

Trial took(double us, double mad_us = 0) {
  return {.ok = true, .time_us = us, .mad_us = mad_us, .samples = mad_us > 0 ? 12 : 0};
}

TEST(PlanClosing, WithoutAPlanItIsOpen) {
  const PlanClosing closing(edges(0), 0.02);
  EXPECT_FALSE(closing.certificate());
  EXPECT_FALSE(closing.closed());
}

TEST(PlanClosing, ClosesOnceAPlanIsNearTheLeastSumTimesTheLeastRatio) {
  PlanClosing closing(edges(0), 0.02);
  closing.tell(200, took(204));  // no plan, as far as is seen, takes less than 1.02 of its sum
  ASSERT_TRUE(closing.certificate());
  EXPECT_NEAR(closing.certificate()->gain, 204 / (1.02 * 150) - 1, 1e-12);
  EXPECT_FALSE(closing.closed());
  closing.tell(150, took(156));
  EXPECT_NEAR(closing.certificate()->gain, 156 / (1.02 * 150) - 1, 1e-12);
  EXPECT_TRUE(closing.closed());
}

TEST(PlanClosing, APlanThatTakesLessThanItsSumOpensItAgain) {
  PlanClosing closing(edges(0), 0.02);
  closing.tell(150, took(150));
  EXPECT_TRUE(closing.closed());
  closing.tell(200, took(190));
  EXPECT_FALSE(closing.closed()) << "0.95 of the least sum is 5 % below the best";
}

TEST(PlanClosing, NoiseKeepsItOpen) {
  PlanClosing exact(edges(0), 0.02), noisy(edges(0), 0.02), noisy_kernels(edges(0.5), 0.02);
  exact.tell(150, took(150));
  noisy.tell(150, took(150, 5));
  noisy_kernels.tell(150, took(150));
  EXPECT_TRUE(exact.closed());
  EXPECT_FALSE(noisy.closed());
  EXPECT_FALSE(noisy_kernels.closed());
}

}  // namespace
}  // namespace fusetune::search
