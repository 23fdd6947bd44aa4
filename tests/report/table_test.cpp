#include "report/table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace fusetune::report {
namespace {

Table sample() {
  Table table({{"name", "name"},
               {"time_us", "time us", 1},
               {"count", "count"},
               {"good", "good"},
               {"words", "words"}});
  table.add({"a, \"b\"", 12.3456, std::int64_t{7}, true, std::vector<std::string>{"x", "y"}});
  table.add({"größer", std::nan(""), std::int64_t{-12345}, false, std::vector<std::string>{}});
  table.add(
      {std::monostate(), std::numeric_limits<double>::infinity(), std::int64_t{0}, true, std::monostate()});
  return table;
}

TEST(Table, TextAlignsByCharactersAndNumbersToTheRight) {
  EXPECT_EQ(sample().to_text(),
            "name    time us   count  good  words\n"
            "a, \"b\"     12.3       7  yes   x y\n"
            "größer           -12345  no\n"
            "                      0  yes\n");
}

TEST(Table, CsvQuotesAndKeepsAllDigits) {
  EXPECT_EQ(sample().to_csv(),
            "name,time_us,count,good,words\n"
            "\"a, \"\"b\"\"\",12.3456,7,yes,x y\n"
            "größer,,-12345,no,\n"
            ",,0,yes,\n");
}

TEST(Table, JsonHasTypesAndNullsForWhatIsNoNumber) {
  const auto rows = nlohmann::json::parse(sample().to_json());
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(
      rows[0],
      (nlohmann::json{
          {"name", "a, \"b\""}, {"time_us", 12.3456}, {"count", 7}, {"good", true}, {"words", {"x", "y"}}}));
  EXPECT_TRUE(rows[1]["time_us"].is_null());
  EXPECT_TRUE(rows[2]["time_us"].is_null());
  EXPECT_TRUE(rows[2]["name"].is_null());
  EXPECT_EQ(rows[1]["words"], nlohmann::json::array());
}

TEST(Table, BytesThatAreNotUtf8DoNotBreakJson) {
  Table table(std::vector<Column>{{"text", "text"}});
  table.add({std::string("bad \xff byte")});
  EXPECT_EQ(nlohmann::json::parse(table.to_json())[0]["text"], "bad \uFFFD byte");
}

TEST(Table, EmptyTablesAreStillTables) {
  const Table table(std::vector<Column>{{"a", "a"}, {"b", "b"}});
  EXPECT_EQ(table.to_text(), "a  b\n");
  EXPECT_EQ(table.to_csv(), "a,b\n");
  EXPECT_EQ(nlohmann::json::parse(table.to_json()), nlohmann::json::array());
}

TEST(Table, RefusesRowsOfAnotherLength) {
  Table table(std::vector<Column>{{"a", "a"}, {"b", "b"}});
  EXPECT_THROW(table.add({true}), base::InternalError);
}

}  // namespace
}  // namespace fusetune::report
