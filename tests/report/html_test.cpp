// What others wrote must not become part of a page.
#include "report/html.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "report/table.h"

namespace fusetune::report {
namespace {

TEST(Html, MarkupBecomesText) {
  EXPECT_EQ(escape_html("<b a='1' c=\"2\">&amp;</b>"),
            "&lt;b a=&#39;1&#39; c=&quot;2&quot;&gt;&amp;amp;&lt;/b&gt;");
  EXPECT_EQ(escape_html("größer\tals\n1"), "größer\tals\n1");
  EXPECT_EQ(escape_html(std::string_view("a\0b\x1b[2J\x7f", 8)), "a\uFFFDb\uFFFD[2J\uFFFD");
}

TEST(Html, JsonInAScriptEndsNothingAndMeansTheSame) {
  const nlohmann::json value = "</script><!-- <script> & \u2028 \u2029 größer \u20ac";
  const std::string escaped = escape_script(value.dump());
  for (const char* bad : {"<", ">", "&", "\u2028", "\u2029"}) EXPECT_EQ(escaped.find(bad), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(escaped), value);
}

TEST(Html, TablesAreEscapedAndNumbersAlignedToTheRight) {
  Table table({{"name", "a < b"}, {"us", "us", 1}});
  table.add({std::string("<img src=x>"), 1.25});
  table.add({std::monostate(), std::int64_t{7}});
  EXPECT_EQ(table.to_html(),
            "<table>\n<thead><tr><th>a &lt; b</th><th>us</th></tr></thead>\n<tbody>\n"
            "<tr><td>&lt;img src=x&gt;</td><td class=\"number\">1.2</td></tr>\n"
            "<tr><td></td><td class=\"number\">7</td></tr>\n</tbody>\n</table>\n");
}

}  // namespace
}  // namespace fusetune::report
