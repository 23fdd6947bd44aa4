#include "base/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

namespace fusetune::base {
namespace {

using testing::ElementsAre;

TEST(Trim, RemovesOnlyTheEnds) {
  EXPECT_EQ(trim("  a b\t\r\n"), "a b");
  EXPECT_EQ(trim(" \t "), "");
  EXPECT_EQ(trim(""), "");
  EXPECT_EQ(trim("x"), "x");
}

TEST(ByteOrderMark, IsTakenOffTheBeginningOnly) {
  EXPECT_EQ(without_byte_order_mark("\xef\xbb\xbf"
                                    "a"),
            "a");
  EXPECT_EQ(without_byte_order_mark("a\xef\xbb\xbf"), "a\xef\xbb\xbf");
  EXPECT_EQ(without_byte_order_mark("\xef\xbb"), "\xef\xbb");
  EXPECT_EQ(without_byte_order_mark(""), "");
}

TEST(Split, KeepsEmptyFields) {
  EXPECT_THAT(split("a,,b", ','), ElementsAre("a", "", "b"));
  EXPECT_THAT(split("", ','), ElementsAre(""));
  EXPECT_THAT(split(",", ','), ElementsAre("", ""));
  EXPECT_THAT(split("a b", ','), ElementsAre("a b"));
}

TEST(QuoteForShell, LeavesPlainWordsAndProtectsTheOthers) {
  EXPECT_EQ(quote_for_shell("a/b-1.db"), "a/b-1.db");
  EXPECT_EQ(quote_for_shell(""), "''");
  EXPECT_EQ(quote_for_shell("a b"), "'a b'");
  EXPECT_EQ(quote_for_shell("[7-14]"), "'[7-14]'");
  EXPECT_EQ(quote_for_shell("a'b"), "'a'\\''b'");
}

TEST(QuoteForMessage, IsShortAndPrintable) {
  EXPECT_EQ(quote_for_message("48996"), "'48996'");
  EXPECT_EQ(quote_for_message("a\x1b[2Jb\n\x7f"),
            "'a?[2Jb?"
            "?'");
  EXPECT_EQ(quote_for_message("\xc3\xbc"), "'\xc3\xbc'");
  EXPECT_EQ(quote_for_message(std::string(39, 'x') + "\xc3\xbc"), "'" + std::string(39, 'x') + "...'");
  EXPECT_EQ(quote_for_message(std::string(41, 'x')), "'" + std::string(40, 'x') + "...'");
}

TEST(Nearest, FindsSlipsOfTheFingers) {
  constexpr std::array<std::string_view, 5> kCommands = {"search", "generate", "bench", "db", "translate"};
  EXPECT_EQ(nearest("serach", kCommands), "search");
  EXPECT_EQ(nearest("Search", kCommands), "search");
  EXPECT_EQ(nearest("benhc", kCommands), "bench");
  EXPECT_EQ(nearest("tranlsat", kCommands), "translate");
  EXPECT_EQ(nearest("bd", kCommands), "db");
}

TEST(Nearest, IsSilentWhenNothingIsNear) {
  constexpr std::array<std::string_view, 2> kCommands = {"search", "db"};
  EXPECT_EQ(nearest("xylophone", kCommands), "");
  EXPECT_EQ(nearest("xy", kCommands), "");
  EXPECT_EQ(nearest("", kCommands), "");
  EXPECT_EQ(nearest("search", {}), "");
}

}  // namespace
}  // namespace fusetune::base
