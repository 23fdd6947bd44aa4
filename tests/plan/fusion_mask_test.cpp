#include "plan/fusion_mask.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <string>

#include "base/error.h"
#include "base/text.h"

namespace fusetune::plan {
namespace {

std::string hexadecimal(unsigned value, bool upper) {
  std::array<char, 8> text{};
  std::snprintf(text.data(), text.size(), upper ? "0x%X" : "0x%x", value);
  return text.data();
}

TEST(FusionMask, EverySpellingOfEveryMask) {
  for (unsigned value = 0; value <= 65535; ++value) {
    const FusionMask mask{static_cast<std::uint16_t>(value)};
    const std::string binary = mask.to_binary();
    ASSERT_EQ(binary.size(), 16u);
    for (int position = 0; position < 16; ++position)
      ASSERT_EQ(binary[static_cast<std::size_t>(position)] - '0', mask.bit(position));
    ASSERT_EQ(std::stoul(binary, nullptr, 2), value);
    for (const std::string& spelling :
         {std::to_string(value), binary, "0b" + binary, hexadecimal(value, false), hexadecimal(value, true)})
      ASSERT_EQ(parse_mask(spelling), mask) << spelling;
  }
}

TEST(FusionMask, PositionZeroIsTheMostSignificantBit) {
  EXPECT_EQ(parse_mask("1000000000000000").value, 32768);
  EXPECT_EQ(FusionMask{32768}.bit(0), 1);
  EXPECT_EQ(FusionMask{1}.bit(15), 1);
}

TEST(FusionMask, LeadingZerosOfHexadecimal) { EXPECT_EQ(parse_mask("0x001f").value, 31); }

TEST(FusionMask, AnythingElseIsAUsageErrorThatSaysWhatWasExpected) {
  for (const char* text : {"",
                           " ",
                           " 7",
                           "7 ",
                           "7x",
                           "x7",
                           "+5",
                           "-1",
                           "-0",
                           "00",
                           "010",
                           "0b",
                           "0b101",
                           "0b10101010101010101",
                           "0x",
                           "0x1FFFF",
                           "0x00001",
                           "0xg",
                           "0X1f",
                           "0B0000000000000000",
                           "65536",
                           "99999",
                           "100000",
                           "101010101010101",
                           "10101010101010101",
                           "1010101010101012",
                           "١٢",
                           "1 0",
                           "1e3",
                           "1.0",
                           "0b 000000000000000",
                           "0x-1",
                           "7\n",
                           "0x+1",
                           "nan",
                           "1010_1010_1010_10"}) {
    try {
      parse_mask(text);
      ADD_FAILURE() << "'" << text << "' was accepted";
    } catch (const base::UsageError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("expected a decimal"));
      EXPECT_THAT(error.what(), testing::HasSubstr(base::quote_for_message(text)));
    }
  }
}

TEST(FusionMask, EmbeddedNulIsNotTheEnd) {
  using namespace std::string_view_literals;
  EXPECT_THROW(parse_mask("7\0"sv), base::UsageError);
  EXPECT_THROW(parse_mask("0x1\0"sv), base::UsageError);
}

}  // namespace
}  // namespace fusetune::plan
