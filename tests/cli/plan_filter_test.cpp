#include "cli/plan_filter.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"

namespace fusetune::cli {
namespace {

TEST(PlanFilter, RelationsOfTheKernelCount) {
  const plan::FusionPlan four = plan::FusionPlan::from_mask(plan::parse_mask("0001100000000011"));
  ASSERT_EQ(four.kernel_count(), 4);
  for (const char* text :
       {"kernels<=4", "kernels<5", "kernels=4", "kernels==4", "kernels>=4", "kernels>3", "!kernels=3"})
    EXPECT_TRUE(parse_filter(text)(four)) << text;
  for (const char* text : {"kernels<=3", "kernels<4", "kernels=5", "kernels>=5", "kernels>4", "!kernels=4"})
    EXPECT_FALSE(parse_filter(text)(four)) << text;
}

TEST(PlanFilter, HasMeansExactlyTheseOperators) {
  const plan::FusionPlan plan = plan::FusionPlan::byte_transformer();
  EXPECT_TRUE(parse_filter("has:1-6")(plan));
  EXPECT_TRUE(parse_filter("has:7-7")(plan));
  EXPECT_TRUE(parse_filter("has:7")(plan));
  EXPECT_FALSE(parse_filter("has:2-6")(plan));
  EXPECT_TRUE(parse_filter("handwritten")(plan));
}

TEST(PlanRange, NamesEachPlanOnceByItsFirstMask) {
  EXPECT_EQ(plans_in(parse_range(":")).size(), static_cast<std::size_t>(plan::kPlanCount));
  // 32766 and 32767 are the complements of 1 and 0.
  const auto plans = plans_in(parse_range("32766:32768"));
  ASSERT_EQ(plans.size(), 2u);
  EXPECT_EQ(plans[1].mask.value, 32767);
  EXPECT_EQ(plans[1].plan, plan::FusionPlan::all_fused());
  EXPECT_THROW(parse_range("5:5"), base::UsageError);
}

}  // namespace
}  // namespace fusetune::cli
