// Pages: nothing from outside, nothing hostile inside, and the data they were made from.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <regex>

#include "plan/fusion_plan.h"
#include "report/search_page.h"
#include "report/strategy_page.h"

namespace fusetune::report {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kHostile = "</script><img src=x onerror=alert(1)>'\"&";

/// The page without Chart.js, whose text nobody but its authors writes.
std::string own_text(const std::string& page) {
  const std::size_t begin = page.find("Chart.js is copyright");
  const std::size_t end = page.find("</script>", begin);
  EXPECT_NE(end, std::string::npos);
  return page.substr(0, begin) + page.substr(end);
}

json data_of(const std::string& page) {
  const std::string mark = "id=\"data\">\n";
  const std::size_t begin = page.find(mark) + mark.size();
  return json::parse(page.substr(begin, page.find("</script>", begin) - begin));
}

measure::Measurement measured(double us) {
  measure::Measurement measurement;
  measurement.outcome = measure::Outcome::ok;
  measurement.time = {us, 0.5, us - 1, 3};
  measurement.samples_us = {us - 1, us, us + 0.1};
  measurement.reference_us = 100;
  measurement.slowdown = 1.25;
  return measurement;
}

/// A finished search of the all-fused plan, everything textual hostile.
store::Contents searched() {
  store::Contents contents;
  contents.environments.push_back({"env", {{"device", kHostile}, {"isa", "avx2"}}});
  store::TuningRecord segment;
  segment.key.variant = plan::variant_index(plan::FusionPlan::from_mask({0}).variants().front());
  segment.key.cache_mode = "model";
  segment.schedule = kHostile;
  segment.measurement = measured(10);
  contents.segments = {segment, segment};
  contents.segments[1].measurement = {};
  contents.segments[1].measurement.outcome = measure::Outcome::crashed;
  contents.segments[1].measurement.message = kHostile;
  contents.segments[1].repeat_command = kHostile;
  store::PlanRecord plan;
  plan.mask = 0;
  plan.cache_mode = "model";
  plan.schedules = {kHostile};
  plan.sum_us = 10;
  plan.measurement = measured(11);
  contents.plans = {plan};
  store::RunRecord run;
  run.id = 7;
  run.problem = kHostile;
  run.environment = "env";
  run.state = store::RunState::finished;
  run.options = json({{"command", kHostile}}).dump();
  run.result = json({{"best", {{"mask", 0}, {"schedules", {kHostile}}, {"time_us", {{"value", 11.0}}}}},
                     {"no_certificate", kHostile}})
                   .dump();
  contents.runs = {run};
  contents.finalists[7] = {store::ComparisonRecord{.plan = plan, .pairs = 40}};
  contents.finalists[7][0].high = std::numeric_limits<double>::infinity();
  return contents;
}

std::string page() {
  const store::Contents contents = searched();
  return search_page(contents, contents.runs.front());
}

/// What a browser would fetch.
void expect_nothing_from_outside(const std::string& page) {
  const std::string own = own_text(page);
  EXPECT_THAT(own, Not(HasSubstr("://")));
  EXPECT_FALSE(std::regex_search(own, std::regex("<[^>]*\\s(src|href|srcset|action|data)\\s*=")));
  for (const char* word : {"<link", "<iframe", "<object", "@import", "url(", "fetch(", "XMLHttp", "import("})
    EXPECT_THAT(own, Not(HasSubstr(word)));
  EXPECT_THAT(page, HasSubstr("Content-Security-Policy\" content=\"default-src 'none'; style-src"));
  EXPECT_THAT(page, HasSubstr("Permission is hereby granted")) << "Chart.js's licence asks for it";
}

TEST(Page, NothingComesFromOutside) { expect_nothing_from_outside(page()); }

TEST(Page, WhatOthersWroteStaysText) {
  const std::string own = own_text(page());
  EXPECT_THAT(own, Not(HasSubstr("<img")));
  EXPECT_THAT(own, HasSubstr("&lt;img src=x onerror=alert(1)&gt;&#39;&quot;&amp;"));
  std::size_t scripts = 0, ends = 0;
  for (std::size_t at = own.find("<script"); at != std::string::npos; at = own.find("<script", at + 1))
    ++scripts;
  for (std::size_t at = own.find("</script"); at != std::string::npos; at = own.find("</script", at + 1))
    ++ends;
  EXPECT_EQ(scripts, 3u) << "data, Chart.js, charts.js";
  EXPECT_EQ(ends, 3u);
}

TEST(Page, ScriptsRunByANonceThatDependsOnAllOfThePage) {
  const auto nonce = [](const std::string& text) {
    std::smatch found;
    EXPECT_TRUE(std::regex_search(text, found, std::regex("script-src 'nonce-([0-9a-f]{32})'")));
    return found[1].str();
  };
  store::Contents other = searched();
  other.plans[0].measurement.samples_us[0] += 1;
  const std::string first = nonce(page()), second = nonce(search_page(other, other.runs.front()));
  EXPECT_THAT(page(), HasSubstr("<script nonce=\"" + first + "\">"));
  EXPECT_NE(first, second);
  EXPECT_EQ(first, nonce(page())) << "the same rows, the same page";
}

TEST(Page, HoldsTheRowsItWasMadeFrom) {
  const store::Contents contents = searched();
  const json data = data_of(page());
  EXPECT_EQ(data["run"], 7);
  EXPECT_EQ(data["problem"], kHostile);
  EXPECT_EQ(data["fields"]["device"], kHostile);
  EXPECT_EQ(data["result"], json::parse(contents.runs[0].result));
  ASSERT_EQ(data["segments"].size(), 2u);
  EXPECT_EQ(data["segments"][0]["samples_us"], json(contents.segments[0].measurement.samples_us));
  EXPECT_EQ(data["segments"][0]["schedule"], kHostile);
  EXPECT_EQ(data["segments"][1]["outcome"], "crashed");
  EXPECT_FALSE(data["segments"][1].contains("median_us"));
  ASSERT_EQ(data["plans"].size(), 1u);
  EXPECT_EQ(data["plans"][0]["median_us"], 11);
  EXPECT_EQ(data["plans"][0]["sum_us"], 10);
  ASSERT_EQ(data["finalists"].size(), 1u);
  EXPECT_EQ(data["finalists"][0]["pairs"], 40);
  EXPECT_TRUE(data["finalists"][0]["high"].is_null()) << "no upper limit is no number";
}

TEST(Page, SaysWhatIsNextToTheBestAndWhatTheAuditOfThePruningFound) {
  store::Contents contents = searched();
  json result = json::parse(contents.runs[0].result);
  result["runner_up"] = {{"mask", 21845}, {"ratio", 1.0321}, {"ratio_low", 1.01}, {"ratio_high", nullptr}};
  result["pruning"] = {
      {"threshold", {{"probability", 0.25}, {"chance", 0.05}, {"held_out", 40}}},
      {"audit", {{"pruned", 96}, {"audited", 12}, {"losses", 1}, {"share_at_most", 0.3}, {"chance", 0.12}}}};
  const auto shown = [&] {
    contents.runs[0].result = result.dump();
    return search_page(contents, contents.runs.front());
  };
  EXPECT_THAT(shown(),
              HasSubstr("Next to the best: mask 21845, 1.032 (1.010 – no upper limit) times its time."));
  EXPECT_THAT(shown(),
              HasSubstr("less probable than 0.250 of the fast class: of that class 5.0 % at most, by 40"));
  EXPECT_THAT(shown(), HasSubstr("Audit: 12 of 96 pruned kernels were timed all the same. 1 would have"));
  EXPECT_THAT(shown(), HasSubstr("That the others hold one: an estimated 12 %."));
  result["pruning"]["audit"]["chance"] = nullptr;
  EXPECT_THAT(shown(), HasSubstr("That the others hold one: not known."));
  result["pruning"]["audit"] = nullptr;
  EXPECT_THAT(shown(), Not(HasSubstr("Audit:")));
  EXPECT_THAT(page(), Not(HasSubstr("Next to the best")));
}

TEST(Page, ARunThatSaysNothingIsShownAllTheSame) {
  for (const char* result : {"", "{", "[]", "{\"best\": 3}", "{\"best\": {\"mask\": 1e9}}",
                             "{\"best\": {\"mask\": \"x\", \"schedules\": 1}, \"tied\": {}}"}) {
    store::Contents contents = searched();
    contents.runs[0].result = result;
    contents.runs[0].state = store::RunState::interrupted;
    contents.finalists.clear();
    const std::string text = search_page(contents, contents.runs.front());
    EXPECT_THAT(text, HasSubstr("This search ended without one")) << result;
  }
}

TEST(Page, StrategiesAreShownWithTheirCurves) {
  const double none = std::nan("");
  const std::vector<RegretCurve> curves = {{"random", {{0.5, 0.25, 0.75}, {0.25, 0, 0.5}}},
                                           {"guided", {{none, none, none}, {0, 0, 0}}}};
  Table budgets(std::vector<Column>{{"strategy", "strategy"}});
  budgets.add({std::string("<random>")});
  const std::string text = to_html({.title = "t <1>",
                                    .curves = curves,
                                    .budgets = budgets,
                                    .notes = "one\ntwo",
                                    .tie_band = 0.005,
                                    .recorded = kHostile});
  expect_nothing_from_outside(text);
  EXPECT_THAT(own_text(text), Not(HasSubstr("<img")));
  EXPECT_THAT(text, HasSubstr("<title>t &lt;1&gt;</title>"));
  EXPECT_THAT(text, HasSubstr("<td>&lt;random&gt;</td>"));
  EXPECT_THAT(text, HasSubstr("<p>one</p>\n<p>two</p>"));
  const json data = data_of(text);
  EXPECT_EQ(data["tie_percent"], 0.5);
  EXPECT_EQ(data["curves"][0]["mean"], json({50, 25}));
  EXPECT_EQ(data["curves"][0]["most"], json({75, 50}));
  EXPECT_EQ(data["curves"][1]["least"], json({nullptr, 0}));
}

}  // namespace
}  // namespace fusetune::report
