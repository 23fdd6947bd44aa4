#include "cli/search_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

namespace fusetune::cli {
namespace {

using measure::Outcome;
using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

/// A search that is over.
class Finished : public Searcher {
 public:
  std::string run(SearchProgress& /*progress*/) override { return {}; }
  const SearchCounts& counts() const override { return made; }
  std::string summary() const override { return "96 plans timed whole"; }
  int timed_count() const override { return 96; }
  double seconds() const override { return 5; }
  std::vector<search::Finalist> finalists() const override { return {}; }
  std::span<const search::TimedEdge> edges() const override { return timed_edges; }
  Untimed untimed() const override { return {.pruned = 300, .left = 12}; }
  std::optional<PlanCounts> plan_counts() const override { return plans; }
  std::optional<lower::AnySchedule> schedule(int /*variant*/) const override { return lower::Schedule{}; }

  SearchCounts made;
  std::vector<search::TimedEdge> timed_edges;
  std::optional<PlanCounts> plans;
};

/// Every segment of the unfused plan alone, 10 us each.
std::vector<search::TimedEdge> unfused_edges() {
  std::vector<search::TimedEdge> edges;
  for (const plan::SegmentVariant& variant : plan::FusionPlan::unfused().variants())
    edges.push_back({plan::variant_index(variant), 10, 0.1, 12});
  return edges;
}

store::ComparisonRecord finalist(const plan::FusionPlan& plan, double median_us, double ratio) {
  store::ComparisonRecord record;
  record.plan.mask = plan.canonical_mask().value;
  record.plan.measurement.outcome = Outcome::ok;
  record.plan.measurement.time = {median_us, 1, median_us - 1, 40};
  record.ratio = record.low = record.high = ratio;
  return record;
}

/// Unfused won, in 153 us.
FinalResult unfused_won() {
  FinalResult result;
  result.finalists = {finalist(plan::FusionPlan::unfused(), 153, 1),
                      finalist(plan::FusionPlan::all_fused(), 160, 160.0 / 153)};
  result.decision.winner = 0;
  result.decision.tied = {0};
  return result;
}

json result_of(const SearchReport& report, const Searcher& searcher, const FinalResult& result) {
  return json::parse(result_json(report, searcher, &result, "finished"));
}

TEST(SearchReport, CountsWhatWasPrunedPredictedAndLeft) {
  Finished search;
  search.plans = PlanCounts{.timed = 96, .predicted = 312};
  const json counts = result_of({}, search, unfused_won())["search"];
  EXPECT_EQ(counts["pruned"], 300);
  EXPECT_EQ(counts["left"], 12);
  EXPECT_EQ(counts["plans"], (json{{"timed", 96}, {"predicted", 312}}));
  search.plans = {};
  EXPECT_TRUE(result_of({}, search, unfused_won())["search"]["plans"].is_null());
}

TEST(SearchReport, SaysWhyThereIsNoCertificate) {
  Finished search;
  FinalResult result = unfused_won();
  const auto expect_reason = [&](const std::string& reason) {
    EXPECT_THAT(describe_result({}, search, result), HasSubstr("no certificate: " + reason));
    const json found = result_of({}, search, result);
    EXPECT_TRUE(found["certificate"].is_null());
    EXPECT_THAT(found["no_certificate"].get<std::string>(), HasSubstr(reason));
  };
  expect_reason("segments were not timed");
  search.timed_edges = unfused_edges();
  expect_reason("the best plan was not timed beside its segments");
  result.finalists[0].whole_over_sum = {1.02, 1.01, 1.03};
  result.finalists[0].plan.sum_us = 150;
  for (search::TimedEdge& edge : search.timed_edges) edge.mad_us = 100;
  expect_reason("the segments' times are too uncertain");

  search.timed_edges = unfused_edges();
  EXPECT_THAT(describe_result({}, search, result),
              testing::AllOf(HasSubstr("certificate: if every plan"), Not(HasSubstr("no certificate"))));
  const json found = result_of({}, search, result);
  EXPECT_NEAR(found["certificate"]["alpha"].get<double>(), 1.01, 1e-12);
  EXPECT_FALSE(found.contains("no_certificate"));
}

TEST(SearchReport, SaysHowGoodTheModelIs) {
  Finished search;
  SearchReport report;
  EXPECT_THAT(describe_trials(report, search), Not(HasSubstr("model")));
  EXPECT_TRUE(result_of(report, search, unfused_won())["model"].is_null());
  report.model_of = "plans";
  model::GroupScore& score = report.model.emplace();
  score.rows = 96;
  score.spearman = 0.814;
  score.noise_ceiling = std::numeric_limits<double>::quiet_NaN();
  score.kept = 0.25;
  score.auc = 0.9;
  EXPECT_THAT(
      describe_trials(report, search),
      HasSubstr("model of 96 plans, each fifth predicted from the others: Spearman 0.81, noise ceiling "
                "not known, AUC 0.90, share kept 0.25\n"));
  const json model = result_of(report, search, unfused_won())["model"];
  EXPECT_EQ(model["of"], "plans");
  EXPECT_EQ(model["rows"], 96);
  EXPECT_EQ(model["spearman"], 0.814);
  EXPECT_TRUE(model["noise_ceiling"].is_null());
}

}  // namespace
}  // namespace fusetune::cli
