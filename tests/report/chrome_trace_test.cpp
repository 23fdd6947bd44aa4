#include "report/chrome_trace.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace fusetune::report {
namespace {

TEST(ChromeTrace, NamesTheProcessAndItsTracksAndListsTheirEvents) {
  const std::vector<TraceTrack> tracks = {
      {"passes", {{"pass 1", 0, 12.5, {}}}},
      {"kernels",
       {{"[0-4]", 0, 7.0000000001, {{"symbol", "a"}, {"flops", 2.5}, {"calls", std::int64_t{3}}}},
        {"[5]", 7, 5.5, {}}}}};
  EXPECT_EQ(chrome_trace("plan", tracks), R"({"displayTimeUnit": "ns", "traceEvents": [
{"ph":"M","pid":1,"tid":0,"name":"process_name","args":{"name":"plan"}},
{"ph":"M","pid":1,"tid":1,"name":"thread_name","args":{"name":"passes"}},
{"ph":"X","pid":1,"tid":1,"ts":0.0,"dur":12.5,"name":"pass 1"},
{"ph":"M","pid":1,"tid":2,"name":"thread_name","args":{"name":"kernels"}},
{"ph":"X","pid":1,"tid":2,"ts":0.0,"dur":7.0,"name":"[0-4]","args":{"symbol":"a","flops":2.5,"calls":3}},
{"ph":"X","pid":1,"tid":2,"ts":7.0,"dur":5.5,"name":"[5]"}
]}
)");
}

TEST(ChromeTrace, IsJsonWhateverTheNames) {
  const auto json =
      nlohmann::json::parse(chrome_trace("a \"b\"\n", {{"\\", {{"\t", 0, 1, {}}}}, {"none", {}}}));
  EXPECT_EQ(json["traceEvents"][0]["args"]["name"], "a \"b\"\n");
  EXPECT_EQ(json["traceEvents"].size(), 4U);
}

}  // namespace
}  // namespace fusetune::report
