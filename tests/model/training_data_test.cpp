#include "model/training_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/german_locale.h"

namespace fusetune::model {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::string error_of(std::string_view text) {
  try {
    parse_training_data(text, "data.txt");
  } catch (const base::UsageError& error) {
    return error.what();
  }
  return "no error";
}

TEST(TrainingData, ReadsBitsAndValues) {
  const TrainingData data = parse_training_data("0100010111011101 54.524\n1011111101100100 60\n", "data.txt");
  ASSERT_EQ(data.rows.size(), 2u);
  EXPECT_EQ(data.rows[0].mask.value, 0b0100010111011101);
  EXPECT_EQ(data.rows[0].value, 54.524);
  EXPECT_EQ(data.rows[1].mask.value, 48996);
  EXPECT_EQ(data.lines, 2);
  EXPECT_EQ(data.left_out(), 0);
}

TEST(TrainingData, ByteOrderMarkCrLfTabsBlanksAndComments) {
  const TrainingData data = parse_training_data(
      "\xef\xbb\xbf# measured\r\n\r\n  0100010111011101\t \t1e-5  # fast\r\n\t\n0010101010101010  2",
      "data.txt");
  ASSERT_EQ(data.rows.size(), 2u);
  EXPECT_EQ(data.rows[0].value, 1e-5);
  EXPECT_EQ(data.rows[1].value, 2);
}

TEST(TrainingData, BadLinesAreNamedWithTheirReason) {
  EXPECT_EQ(error_of("0100010111011101 1,5\n"), "data.txt:1: '1,5' is no number, expected one like 54.524");
  EXPECT_EQ(error_of("\n# x\n0100010111011101\n"), "data.txt:3: '0100010111011101' has no value behind it");
  EXPECT_EQ(error_of("0100010111011101 1 2\n"),
            "data.txt:1: '2' is one word too many, expected a mask and a value");
  for (const char* mask : {"17885", "010001011101110", "01000101110111010", "0100010111011102", "0x45dd",
                           "0b0100010111011101", "+100010111011101"})
    EXPECT_THAT(error_of(std::string(mask) + " 1\n"), HasSubstr("expected sixteen binary digits")) << mask;
  for (const char* value : {"+1", "0x1", "1.5s", "1e", "1e999", "--1", "1.2.3"})
    EXPECT_THAT(error_of("0100010111011101 " + std::string(value)), HasSubstr("is no number")) << value;
  EXPECT_THAT(error_of("a 1\nb 1\n"), HasSubstr("data.txt:1: 'a'"));
  EXPECT_THAT(error_of("a 1\nb 1\n"), HasSubstr("data.txt:2: 'b'"));
}

TEST(TrainingData, ManyBadLinesAreCountedAndControlCharactersKeptOut) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "\x1b[2J 1\n";
  EXPECT_THAT(error_of(text), HasSubstr("and 95 more bad lines"));
  EXPECT_THAT(error_of(text), Not(HasSubstr("\x1b")));
}

TEST(TrainingData, ValuesThatAreNoTimesAreLeftOutAndCounted) {
  const TrainingData data = parse_training_data(
      "0000000000000000 nan\n0000000000000001 inf\n0000000000000010 -inf\n0000000000000011 -1\n"
      "0000000000000100 0\n0000000000000101 -0\n0000000000000110 3\n",
      "data.txt");
  ASSERT_EQ(data.rows.size(), 1u);
  EXPECT_EQ(data.rows[0].value, 3);
  EXPECT_EQ(data.lines, 7);
  EXPECT_EQ(data.not_finite, 3);
  EXPECT_EQ(data.not_positive, 3);
  EXPECT_THAT(data.summary(), HasSubstr("left out 6 (3 not finite, 3 not above 0)"));
}

TEST(TrainingData, OfMasksThatNameOnePlanTheBetterCounts) {
  // The second complements the last fifteen bits of the first: the same segments.
  const TrainingData data = parse_training_data(
      "0100010111011101 5\n0011101000100010 4\n0100010111011101 6\n0000000000000000 nan\n"
      "0000000000000000 2\n",
      "data.txt");
  ASSERT_EQ(data.rows.size(), 2u);
  EXPECT_EQ(data.rows[0].value, 4);
  EXPECT_EQ(data.rows[0].mask.to_binary(), "0011101000100010");
  EXPECT_THAT(data.rows[0].values, ElementsAre(5, 4, 6));
  EXPECT_EQ(data.duplicates, 2) << "a value that is left out repeats nothing";
  EXPECT_THAT(data.summary(), HasSubstr("2 repeat a plan"));
}

TEST(TrainingData, WrittenAndReadBackInAnyLocale) {
  const std::vector<MeasuredMask> rows = {{{48996}, 0.1, {0.1}}, {{6826}, 1e-5, {1234.5, 1e-5}}};
  const base::GermanLocale german;
  const std::string text = format_training_data(rows);
  EXPECT_EQ(text, "1011111101100100 0.1\n0001101010101010 1234.5\n0001101010101010 1e-05\n");
  const TrainingData data = parse_training_data(text, "data.txt");
  ASSERT_EQ(data.rows.size(), 2u);
  EXPECT_EQ(data.rows[0].value, 0.1);
  EXPECT_THAT(data.rows[1].values, ElementsAre(1234.5, 1e-5));
  EXPECT_EQ(format_training_data(data.rows), text);
  EXPECT_THAT(error_of("0100010111011101 1,5"), HasSubstr("is no number"))
      << "a comma is no point in any locale";
}

TEST(TrainingData, AFileThatIsNotThere) {
  EXPECT_THROW(read_training_data("/no/such/file"), base::EnvironmentError);
}

}  // namespace
}  // namespace fusetune::model
