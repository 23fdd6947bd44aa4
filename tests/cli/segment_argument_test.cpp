#include "cli/segment_argument.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace fusetune::cli {
namespace {

TEST(SegmentArgument, PositionsBecomeOperators) {
  EXPECT_EQ(parse_segment("3-7"), (plan::Segment{2, 6}));
  EXPECT_EQ(parse_segment("1-15"), (plan::Segment{0, 14}));
  for (const char* text : {"", "3", "-3", "3-", "3-7 ", "3--7", "a-7", "99999-3"})
    EXPECT_THROW(parse_segment(text), base::UsageError) << text;
}

TEST(VariantArgument, ReadsWhatToStringWrites) {
  for (const plan::SegmentVariant& variant : plan::all_variants())
    EXPECT_EQ(parse_variant(variant.to_string()), variant);
  for (const char* text : {"", "2-6", "[2-6]**", "[3-6]*", "[6-2]", "[0-15]", "[2-2]"})
    EXPECT_THROW(parse_variant(text), base::UsageError) << text;
}

}  // namespace
}  // namespace fusetune::cli
