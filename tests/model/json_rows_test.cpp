#include "model/json_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "model/training_data.h"

namespace fusetune::model {
namespace {

using testing::HasSubstr;

std::vector<int> masks_of(std::string_view text) {
  std::vector<int> masks;
  for (const JsonRow& row : parse_json_rows(text, "f.json")) masks.push_back(row.mask.value);
  return masks;
}

std::string error_of(std::string_view text) {
  try {
    parse_json_rows(text, "f.json");
  } catch (const base::UsageError& error) {
    return error.what();
  }
  return "no error";
}

TEST(JsonRows, EverySpellingOfAMask) {
  EXPECT_THAT(masks_of(R"([48996, "0010101010101010", {"mask": 7}, {"mask": "0x45dd", "plan": "[0]"},
                          {"bits": "1011111101100100"}, {"mask": 48996, "bits": "1011111101100100"}])"),
              testing::ElementsAre(48996, 10922, 7, 0x45dd, 48996, 48996));
  EXPECT_THAT(masks_of("\xef\xbb\xbf\"0010101010101010\"\r\n\n{\"mask\": 7}\n3"),
              testing::ElementsAre(10922, 7, 3));
  EXPECT_THAT(masks_of(" [ ] \n"), testing::IsEmpty());
}

TEST(JsonRows, ValuesWhereThereAreSome) {
  const auto rows =
      parse_json_rows("{\"mask\": 7, \"value\": 54.5}\n{\"mask\": 8}\n{\"mask\": 9, \"value\": null}", "f");
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].value, 54.5);
  EXPECT_FALSE(rows[1].value);
  EXPECT_TRUE(std::isnan(rows[2].value.value()));
}

TEST(JsonRows, BadOnesAreNamedWithTheirLine) {
  EXPECT_EQ(
      error_of("[1,\n 2,\n\n 70000]"),
      "f.json:4: 70000 is no mask, expected a number from 0 to 65535, sixteen binary digits as text, or an "
      "object with \"mask\" or \"bits\"");
  EXPECT_EQ(error_of("[\n{\"mask\": \"a,]}\\\"\"}]"),
            "f.json:2: \"mask\" is \"a,]}\\\"\", expected a number from 0 to 65535 or sixteen binary digits");
  EXPECT_EQ(error_of("{\"mask\": 1}\n{\"mask\": -1}"),
            "f.json:2: \"mask\" is -1, expected a number from 0 to 65535 or sixteen binary digits");
  EXPECT_EQ(
      error_of("[{\"mask\": 1, \"bits\": \"0000000000000000\"}]"),
      "f.json:1: \"mask\" and \"bits\" of {\"bits\":\"0000000000000000\",\"mask\":1} name different masks");
  for (const char* text :
       {"[1,,2]", "[1,]", "[1 2]", "{\"mask\": 1} {\"mask\": 2}", "{\n\"mask\": 1}", "\"a"})
    EXPECT_THAT(error_of(text), HasSubstr("f.json:1: not JSON")) << text;
  EXPECT_EQ(error_of("[1,\n2"), "f.json:2: the array that begins with '[' has no end");
  EXPECT_THAT(error_of("[1]\n2"), HasSubstr("something follows the array"));
  EXPECT_THAT(error_of("{\"plan\": 1}"), HasSubstr("has neither \"mask\" nor \"bits\""));
  EXPECT_THAT(error_of("[1.5]"), HasSubstr("1.5 is no mask"));
  EXPECT_THAT(error_of("{\"bits\": \"1010\"}"), HasSubstr("expected sixteen binary digits"));
  EXPECT_THAT(error_of("{\"mask\": 1, \"value\": \"5\"}"),
              HasSubstr("\"value\" is \"5\", expected a number"));
}

TEST(JsonRows, TrainingDataOfThem) {
  const TrainingData data = parse_training_data(
      "[{\"mask\": 7, \"value\": 3}, {\"bits\": \"0000000000000111\", \"value\": 2},\n"
      " {\"mask\": 0, \"value\": 5e-1}, {\"mask\": 1, \"value\": null}]",
      "f.json");
  ASSERT_EQ(data.rows.size(), 2u);
  EXPECT_EQ(data.rows[0].value, 2);
  EXPECT_EQ(data.rows[1].value, 0.5);
  EXPECT_EQ(data.duplicates, 1);
  EXPECT_EQ(data.not_finite, 1);
  try {
    parse_training_data("[{\"mask\": 7, \"value\": 3},\n 8]", "f.json");
    ADD_FAILURE();
  } catch (const base::UsageError& error) {
    EXPECT_STREQ(error.what(), "f.json:2: mask 8 has no \"value\" beside it");
  }
}

}  // namespace
}  // namespace fusetune::model
