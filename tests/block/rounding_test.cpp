#include "block/rounding.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace fusetune::block {
namespace {

TEST(Rounding, EveryHalfRoundTrips) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = from_f16(static_cast<std::uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(from_f16(to_f16(value))));
    } else {
      ASSERT_EQ(to_f16(value), bits);
    }
  }
}

TEST(Rounding, EveryBfloatRoundTrips) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = from_bf16(static_cast<std::uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(from_bf16(to_bf16(value))));
    } else {
      ASSERT_EQ(to_bf16(value), bits);
    }
  }
}

TEST(Rounding, HalfKnownValues) {
  EXPECT_EQ(from_f16(0x3c00), 1.0f);
  EXPECT_EQ(from_f16(0x7bff), 65504.0f);
  EXPECT_EQ(from_f16(0x0001), 0x1p-24f);
  EXPECT_EQ(from_f16(0xc000), -2.0f);
  EXPECT_EQ(from_f16(0x7c00), std::numeric_limits<float>::infinity());
  EXPECT_EQ(to_f16(65519.9f), 0x7bff);
  EXPECT_EQ(to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(to_f16(0x1p-25f), 0x0000);  // a tie: to even
  EXPECT_EQ(to_f16(0x1.8p-24f), 0x0002);
  EXPECT_EQ(to_f16(-0.0f), 0x8000);
}

TEST(Rounding, TiesGoToEven) {
  EXPECT_EQ(round_to(1.0f + 0x1p-11f, Dtype::f16), 1.0f);
  EXPECT_EQ(round_to(1.0f + 0x1.8p-10f, Dtype::f16), 1.0f + 0x1p-9f);
  EXPECT_EQ(round_to(1.0f + 0x1p-8f, Dtype::bf16), 1.0f);
  EXPECT_EQ(round_to(1.0f + 0x1.8p-7f, Dtype::bf16), 1.0f + 0x1p-6f);
  EXPECT_EQ(round_to(std::numeric_limits<float>::max(), Dtype::bf16), std::numeric_limits<float>::infinity());
  EXPECT_EQ(round_to(0.1f, Dtype::f32), 0.1f);
}

}  // namespace
}  // namespace fusetune::block
