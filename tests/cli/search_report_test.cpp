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
  Untimed untimed() const override {
    return {.pruned = 300, .left = 12, .proved = static_cast<std::int64_t>(kernels.size())};
  }
  std::optional<PlanCounts> plan_counts() const override { return plans; }
  std::vector<search::UntimedCandidate> untimed_kernels() const override { return kernels; }
  std::optional<search::PruningReport> pruning() const override { return audits; }
  std::span<const search::PriorTest> prior_tests() const override { return priors; }
  std::optional<lower::AnySchedule> schedule(int /*variant*/) const override { return lower::Schedule{}; }

  SearchCounts made;
  std::vector<search::TimedEdge> timed_edges;
  std::optional<PlanCounts> plans;
  std::vector<search::UntimedCandidate> kernels;
  std::optional<search::PruningReport> audits;
  std::vector<search::PriorTest> priors;
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

TEST(SearchReport, CountsTheKernelsThatPlansWereTunedWith) {
  Finished search;
  search.made.measured = 12;
  search.made.outcomes[Outcome::ok] = 12;
  SearchReport report;
  report.tuned.measured = 44;
  report.tuned.outcomes[Outcome::ok] = 44;
  EXPECT_THAT(
      describe_trials(report, search),
      HasSubstr("tiles of 44 kernels tuned, 96 plans timed whole, 56 candidates, 56 measurements made"));
  const json counts = result_of(report, search, unfused_won())["search"];
  EXPECT_EQ(counts["measured"], 12) << "of the plans";
  EXPECT_EQ(counts["tuned"]["measured"], 44);
  EXPECT_TRUE(result_of({}, search, unfused_won())["search"]["tuned"].is_null());
}

TEST(SearchReport, WhatIsNoisyIsNotToBeRepeatedButPruned) {
  Finished search;
  search.made.failures = {{"[7]", "", "wrong by 3", "fusetune verify 7", Outcome::wrong_result}};
  SearchReport report;
  report.database = "a b.db";
  report.problem_key = "batch=1 seq=64";
  EXPECT_THAT(describe_trials(report, search),
              testing::AllOf(HasSubstr("repeat: fusetune verify 7"), Not(HasSubstr("prune"))));
  search.made.failures.push_back({"[8]", "", "busy", "fusetune verify 8", Outcome::noisy});
  EXPECT_THAT(describe_trials(report, search),
              testing::AllOf(HasSubstr("noisy [8]: busy"), Not(HasSubstr("verify 8")),
                             HasSubstr("prune --outcome noisy --problem 'batch=1 seq=64' --db 'a b.db'\n")));
  const json failures = result_of(report, search, unfused_won())["search"]["failures"];
  EXPECT_EQ(failures[0]["repeat"], "fusetune verify 7");
  EXPECT_TRUE(failures[1]["repeat"].is_null());
}

TEST(SearchReport, SaysOfHowManyPlansWholeOverSumIsKnown) {
  FinalResult result = unfused_won();
  const auto expect_line = [&](const std::string& line) {
    EXPECT_THAT(describe_result({}, Finished(), result), HasSubstr(line));
  };
  expect_line("not measured of 1 plan of several kernels");
  result.finalists[1].whole_over_sum = {0.99, 0.98, 1.01};  // of one kernel
  expect_line("not measured of 1 plan of several kernels");
  result.finalists[0].whole_over_sum = {1.02, 1.01, 1.03};
  expect_line("timed in turn: 1.020 – 1.020 (1 plan)\n");
  result.finalists.push_back(finalist(plan::FusionPlan(1U << 9, false), 155, 155.0 / 153));
  expect_line("timed in turn: 1.020 – 1.020 (1 of 2 plans)\n");
}

TEST(SearchReport, SaysWhatALibraryComputesOrWhyItDoesNot) {
  FinalResult result = unfused_won();
  result.finalists[0].plan.schedules.assign(15, lower::GpuSchedule{}.to_string());
  result.finalists[0].plan.schedules[7] = "product=library";
  SearchReport report;
  EXPECT_THAT(describe_result(report, Finished(), result), Not(HasSubstr("matrix products"))) << "a CPU's";
  EXPECT_TRUE(result_of(report, Finished(), result)["library"].is_null());
  report.library = lower::GpuLibrary{.version = "cuBLASLt 13.0.2", .missing = {}};
  EXPECT_THAT(describe_result(report, Finished(), result),
              testing::AllOf(HasSubstr("matrix products of cuBLASLt 13.0.2 among the candidates"),
                             HasSubstr("by cuBLASLt 13.0.2, not by kernels of its own: [7]\n")));
  report.library = lower::GpuLibrary{.version = {}, .missing = "no such file"};
  result.finalists[0].plan.schedules[7] = lower::GpuSchedule{}.to_string();
  EXPECT_THAT(
      describe_result(report, Finished(), result),
      testing::AllOf(HasSubstr("among the candidates: no such file"), Not(HasSubstr("not by kernels"))));
  EXPECT_EQ(result_of(report, Finished(), result)["library"]["missing"], "no such file");
}

TEST(SearchReport, NamesALibrarysSegmentOfTwoOperators) {
  FinalResult result = unfused_won();
  result.finalists[0] = finalist(plan::FusionPlan(1U << 9 | 1U << 11, false), 153, 1);
  const std::string kernel = lower::GpuSchedule{}.to_string();
  result.finalists[0].plan.schedules = {kernel, "product=library", kernel};
  SearchReport report;
  report.library = lower::GpuLibrary{.version = "cuBLASLt 13.0.2", .missing = {}};
  EXPECT_THAT(describe_result(report, Finished(), result),
              HasSubstr("by cuBLASLt 13.0.2, not by kernels of its own: [10-11]\n"));
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
  EXPECT_EQ(found["certificate"]["alpha_plans"], 1);
  EXPECT_THAT(describe_result({}, search, result), HasSubstr("(the least limit of all 1 plan so timed)"));
  EXPECT_FALSE(found.contains("no_certificate"));
}

/// Unfused won, and was timed beside its segments.
FinalResult certified() {
  FinalResult result = unfused_won();
  result.finalists[0].whole_over_sum = {1.02, 1.01, 1.03};
  result.finalists[0].plan.sum_us = 150;
  return result;
}

TEST(SearchReport, TheCertificateSaysNoMoreThanItCounted) {
  Finished search;
  search.timed_edges = unfused_edges();
  // [0-1] takes four times as long as its two operators alone; it was timed, and another schedule was not.
  const int pair = plan::variant_index({{0, 1}, false});
  search.timed_edges.push_back({pair, 80, 0.1, 12});
  search.kernels = {{{pair, lower::Schedule{}}, 60, true}, {{pair, lower::Schedule{}}, 0, true}};
  const json found = result_of({}, search, certified())["certificate"];
  EXPECT_EQ(found["kernels"], 16);
  EXPECT_EQ(found["proved_timed"], 1);
  EXPECT_EQ(found["proved_untimed"], 1) << "of one nothing is known: it is left, whatever was thought before";
  EXPECT_EQ(found["left"], 12 + 1);
  EXPECT_EQ(found["pruned"], 300);
  EXPECT_EQ(found["failed"], 0);
  EXPECT_GT(found["incumbent_high_us"], 153);
  // Limits below the medians make x larger than it would be with exact times, and so on.
  for (const char* what : {"segments", "best_plan", "whole_over_sum"})
    EXPECT_LT(found["gain_if_exact"][what], found["gain"]) << what;
  // 153.9 us at 1 / (150 / 150) of the screening's speed, over 1.01 * 150: exact segments.
  EXPECT_NEAR(found["gain_if_exact"]["segments"].get<double>(),
              found["incumbent_high_us"].get<double>() / (1.01 * 150) - 1, 1e-9);
  EXPECT_THAT(describe_result({}, search, certified()),
              testing::AllOf(HasSubstr("of 16 kernels timed (96 variants) 1 are in no plan"),
                             HasSubstr("300 pruned by the model, 13 not timed"), HasSubstr("it would be ")));
}

// Where there is no compiler and the cache lacks a kernel, nobody knows whether it fails.
TEST(SearchReport, WhatWasSkippedHasNotFailedAndIsNotTimed) {
  Finished search;
  search.timed_edges = unfused_edges();
  search.made.outcomes = {{Outcome::ok, 15}, {Outcome::skipped, 2}, {Outcome::compile_failed, 1}};
  for (const Outcome outcome : {Outcome::skipped, Outcome::compile_failed, Outcome::skipped})
    search.made.failures.push_back(
        {.name = "[0]", .schedule = {}, .message = {}, .repeat_command = {}, .outcome = outcome});
  const json found = result_of({}, search, certified())["certificate"];
  EXPECT_EQ(found["failed"], 1);
  EXPECT_EQ(found["left"], 12 + 2);
  EXPECT_THAT(describe_result({}, search, certified()),
              testing::AllOf(HasSubstr("1 failed"), HasSubstr("14 not timed")));
}

TEST(SearchReport, SetsTheRunnerUpBesideTheWinner) {
  Finished search;
  FinalResult result = certified();
  result.finalists[1].low = 1.01;
  result.finalists[1].high = 1.09;
  json next = result_of({}, search, result)["runner_up"];
  EXPECT_EQ(next["mask"], plan::FusionPlan::all_fused().canonical_mask().value);
  EXPECT_EQ(next["ratio_low"], 1.01);
  // A tie that the other one wins: what was measured is its ratio to the baseline.
  result.decision.winner = 1;
  next = result_of({}, search, result)["runner_up"];
  EXPECT_EQ(next["mask"], plan::FusionPlan::unfused().canonical_mask().value);
  EXPECT_DOUBLE_EQ(next["ratio_low"].get<double>(), 1 / 1.09);
  EXPECT_DOUBLE_EQ(next["ratio_high"].get<double>(), 1 / 1.01);
}

TEST(SearchReport, SaysWhatTheAuditOfThePruningFound) {
  Finished search;
  EXPECT_THAT(describe_trials({}, search), Not(HasSubstr("audit"))) << "plans were pruned, if anything";
  EXPECT_TRUE(result_of({}, search, unfused_won())["pruning"].is_null());
  search.timed_edges = unfused_edges();
  EXPECT_THAT(describe_trials({}, search), HasSubstr("no audit of what is pruned"));
  EXPECT_TRUE(result_of({}, search, unfused_won())["pruning"]["audit"].is_null());

  SearchReport report;
  report.threshold = search::PruningThreshold{.probability = 0.2, .chance = 0.048, .fast = 104};
  search.audits = search::PruningReport{
      .last = {.left_out = 109, .audited = 14, .losses = 0, .share_at_most = 0.174, .chance = 0.02},
      .audits = 2,
      .audited = 40,
      .losses = 3,
      .widened = 1,
      .complete = true,
      .settled = true};
  EXPECT_THAT(
      describe_trials(report, search),
      testing::AllOf(HasSubstr("of that class 4.8 % are pruned at most, by 104 held out"),
                     HasSubstr("audit: 14 of 109 pruned kernels"), HasSubstr("at most 17 % of all"),
                     HasSubstr("estimated probability of 2 %"), HasSubstr("1 audit failed, 3 kernels")));
  const json found = result_of(report, search, unfused_won())["pruning"];
  EXPECT_EQ(found["threshold"]["chance"], 0.048);
  EXPECT_EQ(found["audit"]["audited"], 14);
  EXPECT_EQ(found["audit"]["passed"], true);
  EXPECT_EQ(found["audit"]["widened"], 1);

  search.audits->complete = false;
  search.audits->last.chance = {};
  EXPECT_THAT(describe_trials(report, search),
              testing::AllOf(HasSubstr("cannot be said"), HasSubstr("the audit was cut short")));
  EXPECT_TRUE(result_of(report, search, unfused_won())["pruning"]["audit"]["chance"].is_null());
}

TEST(SearchReport, SaysWhichPriorWasUsedAndWhy) {
  Finished search;
  EXPECT_THAT(describe_trials({}, search), Not(HasSubstr("prior")));
  EXPECT_TRUE(result_of({}, search, unfused_won())["prior"].is_null());
  search.priors = {{.kind = "records", .name = "other.db", .probes = 9}};
  EXPECT_THAT(describe_trials({}, search),
              HasSubstr("prior refused: records other.db: Spearman not known on 9 kernels timed first, the "
                        "roofline's not known\n  at least 0.90 on 12 kernels and no less than the roofline's "
                        "is needed: the roofline was used\n"));
  const json refused = result_of({}, search, unfused_won())["prior"];
  EXPECT_EQ(refused["used"], "roofline");
  EXPECT_EQ(refused["tests"][0]["probes"], 9);
  EXPECT_TRUE(refused["tests"][0]["spearman"].is_null());
  search.priors.push_back({.kind = "model",
                           .name = "shipped",
                           .trusted = true,
                           .probes = 20,
                           .spearman = 0.98125,
                           .roofline = 0.9625});
  EXPECT_THAT(describe_trials({}, search),
              testing::AllOf(HasSubstr("prior refused: records other.db"), Not(HasSubstr("the roofline was")),
                             HasSubstr("prior used: model shipped: Spearman 0.981 on 20 kernels timed first, "
                                       "the roofline's 0.963\n")));
  const json used = result_of({}, search, unfused_won())["prior"];
  EXPECT_EQ(used["used"], "model");
  EXPECT_EQ(used["needed_spearman"], search::kTrustedSpearman);
  EXPECT_EQ(used["needed_probes"], search::kFewestProbes);
  ASSERT_EQ(used["tests"].size(), 2u);
  EXPECT_EQ(used["tests"][1], (json{{"kind", "model"},
                                    {"name", "shipped"},
                                    {"trusted", true},
                                    {"probes", 20},
                                    {"spearman", 0.98125},
                                    {"roofline_spearman", 0.9625}}));
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
