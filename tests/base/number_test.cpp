#include "base/number.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <random>
#include <sstream>

#include "base/german_locale.h"

namespace fusetune::base {
namespace {

TEST(FormatShortest, IsShortAndRoundTrips) {
  EXPECT_EQ(format_shortest(0.1), "0.1");
  EXPECT_EQ(format_shortest(1e-12), "1e-12");
  EXPECT_EQ(format_shortest(3), "3");
  EXPECT_EQ(format_shortest(-1.0 / 3), "-0.3333333333333333");
  EXPECT_EQ(format_shortest(std::numeric_limits<double>::infinity()), "inf");
  std::mt19937_64 bits(1);
  for (int i = 0; i < 100'000; ++i) {
    const auto value = std::bit_cast<double>(bits());
    if (std::isnan(value)) continue;
    const auto back = parse_double(format_shortest(value));
    ASSERT_TRUE(back) << format_shortest(value);
    ASSERT_EQ(std::bit_cast<std::uint64_t>(*back), std::bit_cast<std::uint64_t>(value))
        << format_shortest(value);
  }
  for (const double value : {std::numeric_limits<double>::max(), std::numeric_limits<double>::lowest(),
                             std::numeric_limits<double>::min(), std::numeric_limits<double>::denorm_min()}) {
    EXPECT_EQ(parse_double(format_shortest(value)), value);
  }
}

TEST(FormatFixed, RoundsAndKeepsDigits) {
  EXPECT_EQ(format_fixed(2.5, 3), "2.500");
  EXPECT_EQ(format_fixed(54.5239, 3), "54.524");
  EXPECT_EQ(format_fixed(1.999, 0), "2");
  EXPECT_EQ(format_fixed(-0.004, 2), "0.00");
  EXPECT_EQ(format_fixed(-0.006, 2), "-0.01");
  EXPECT_EQ(format_fixed(std::numeric_limits<double>::infinity(), 2), "inf");
  EXPECT_EQ(format_fixed(-std::numeric_limits<double>::infinity(), 2), "-inf");
  EXPECT_EQ(format_fixed(-std::numeric_limits<double>::max(), 20).size(), 1u + 309 + 1 + 20);
}

TEST(ParseDouble, TakesTheWholeTextOrNothing) {
  EXPECT_EQ(parse_double("1.5"), 1.5);
  EXPECT_EQ(parse_double("-2e-3"), -2e-3);
  EXPECT_EQ(parse_double("inf"), std::numeric_limits<double>::infinity());
  for (const char* bad :
       {"", " 1", "1 ", "+1", "1,5", "1.5x", "0x10", "--1", "1e", "1e999", ".", "one", "١"}) {
    EXPECT_FALSE(parse_double(bad)) << bad;
  }
}

TEST(ParseSeconds, TakesANumberAndAUnit) {
  EXPECT_EQ(parse_seconds("20"), 20);
  EXPECT_EQ(parse_seconds("20s"), 20);
  EXPECT_EQ(parse_seconds("500ms"), 0.5);
  EXPECT_EQ(parse_seconds("1.5m"), 90);
  EXPECT_EQ(parse_seconds("2h"), 7200);
  for (const char* bad : {"", "s", "ms", "-1s", "1 s", "1d", "inf", "nan", "infs", "1e999h", "1e308h"}) {
    EXPECT_FALSE(parse_seconds(bad)) << bad;
  }
}

TEST(ParseInt, TakesTheWholeTextOrNothing) {
  EXPECT_EQ(parse_int("0"), 0);
  EXPECT_EQ(parse_int("-17"), -17);
  EXPECT_EQ(parse_int("9223372036854775807"), std::numeric_limits<std::int64_t>::max());
  for (const char* bad : {"", " 1", "1 ", "+1", "1.0", "0x10", "9223372036854775808", "1e3", "-", "١"}) {
    EXPECT_FALSE(parse_int(bad)) << bad;
  }
}

TEST(Numbers, AreTheSameInEveryLocale) {
  const GermanLocale german;
  std::ostringstream stream;
  stream << 1234.5;
  ASSERT_EQ(stream.str(), "1.234,5") << "the locale is not in force: this test could not fail";
  char c_text[16];
  std::snprintf(c_text, sizeof c_text, "%.1f", 0.5);
  RecordProperty("c_library_locale", c_text);

  EXPECT_EQ(format_shortest(1234.5), "1234.5");
  EXPECT_EQ(format_fixed(1234.5, 2), "1234.50");
  EXPECT_EQ(parse_double("1234.5"), 1234.5);
  EXPECT_FALSE(parse_double("1234,5"));
  EXPECT_EQ(parse_int("1234567"), 1234567);
}

}  // namespace
}  // namespace fusetune::base
