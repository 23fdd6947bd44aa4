// What a search is predicted to take, from synthetic records.
#include "cli/search_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace fusetune::cli {
namespace {

using nlohmann::json;
using testing::HasSubstr;

/// Ten candidates to be measured beside four that are known.
Rehearsal ten_candidates(double expected_us) {
  Rehearsal rehearsal;
  rehearsal.kernels = 14;
  rehearsal.known = 4;
  rehearsal.expected_us.assign(10, expected_us);
  return rehearsal;
}

BudgetInputs inputs(std::span<const PastSearch> past = {}) {
  return {.problem = "p", .cache_mode = "model", .settings = "s", .to_compile = 8, .past = past};
}

PastSearch past(const std::string& problem, const SearchTime& time) { return {problem, "model", "s", time}; }

const SearchTime kEarlier = {
    .total_s = 40, .compile_s = 6, .compiled = 12, .measure_s = 20, .measured = 40, .finals_s = 9};

TEST(SearchBudget, RatesAreThoseOfEarlierSearches) {
  SearchTime second = kEarlier;
  second.compile_s = 10;  // 16 s for 24 kernels
  second.measure_s = 60;  // 80 s for 80 candidates
  second.finals_s = 11;
  const PastSearch searches[] = {past("p", kEarlier), past("p", second)};
  const Budget budget = make_budget(ten_candidates(100), inputs(searches));
  EXPECT_EQ(budget.to_measure, 10);
  EXPECT_DOUBLE_EQ(budget.compile.seconds.value(), 8 * 16.0 / 24);
  EXPECT_DOUBLE_EQ(budget.device.seconds.value(), 10);
  EXPECT_FALSE(budget.device.at_least);
  EXPECT_DOUBLE_EQ(budget.finals.seconds.value(), 10);
  EXPECT_DOUBLE_EQ(budget.total_s().value(), 8 * 16.0 / 24 + 20);
  EXPECT_THAT(budget.device.source, HasSubstr("80 candidates of 2 earlier searches"));
}

// A compiler takes for another problem's kernels what it takes for these; the device does not.
TEST(SearchBudget, OtherProblemsTellOfTheCompilerOnly) {
  const PastSearch searches[] = {past("other", kEarlier)};
  const Budget budget = make_budget(ten_candidates(3000), inputs(searches));
  EXPECT_DOUBLE_EQ(budget.compile.seconds.value(), 4);
  EXPECT_FALSE(budget.finals.seconds);
  EXPECT_FALSE(budget.total_s());
  // 5 ms of warm-up; two turns of six samples of 3 ms between three of the reference, of two samples of 1 ms
  // at least; an untimed one before each.
  EXPECT_NEAR(budget.device.seconds.value(), 10 * (0.005 + 2 * 7 * 0.003 + 3 * 3 * 0.001), 1e-9);
  EXPECT_TRUE(budget.device.at_least);
  EXPECT_THAT(budget.device.source, HasSubstr("recorded times"));
}

TEST(SearchBudget, WithoutABasisNothingIsInvented) {
  const Budget budget = make_budget(ten_candidates(0), inputs());
  EXPECT_FALSE(budget.compile.seconds);
  EXPECT_EQ(budget.device.source, "the timing protocol alone");
  const std::string text = describe(budget);
  EXPECT_THAT(text, HasSubstr("14 kernels: 4 answered by the database, 10 to be measured"));
  EXPECT_THAT(text, HasSubstr("8 kernels, not known"));
  EXPECT_TRUE(to_json(budget)["total_s"].is_null());
  EXPECT_THAT(compare_with(budget, kEarlier), HasSubstr("predicted not known (compile not known"));
}

TEST(SearchBudget, ASearchThatTheDatabaseAnsweredHadNothingLeft) {
  const Budget budget = answered_budget(100, 20);
  EXPECT_EQ(budget.known, 120);
  EXPECT_EQ(budget.to_measure, 0);
  EXPECT_EQ(budget.counts, Counts::exact);
  EXPECT_EQ(budget.total_s(), 0.0);
}

TEST(SearchBudget, NothingLeftTakesNoTime) {
  Rehearsal rehearsal;
  rehearsal.kernels = rehearsal.known = 14;
  rehearsal.finals_known = true;
  BudgetInputs nothing = inputs();
  nothing.to_compile = 0;
  EXPECT_EQ(make_budget(rehearsal, nothing).total_s(), 0);
}

// What one device did in 20 s, two do in 10.
TEST(SearchBudget, DevicesShareWhatThereIsToMeasure) {
  SearchTime of_two = kEarlier;
  of_two.measure_s = 10;
  of_two.devices = 2;
  const PastSearch searches[] = {past("p", kEarlier), past("p", of_two)};
  BudgetInputs shared = inputs(searches);
  EXPECT_DOUBLE_EQ(make_budget(ten_candidates(100), shared).device.seconds.value(), 5);
  shared.devices = 4;
  EXPECT_DOUBLE_EQ(make_budget(ten_candidates(100), shared).device.seconds.value(), 1.25);
  BudgetInputs unknown = inputs();
  const double alone = make_budget(ten_candidates(3000), unknown).device.seconds.value();
  unknown.devices = 2;
  EXPECT_DOUBLE_EQ(make_budget(ten_candidates(3000), unknown).device.seconds.value(), alone / 2);
}

// The limit is for compiling and measuring; the finals come after it.
TEST(SearchBudget, TimeLimitCutsShort) {
  const PastSearch searches[] = {past("p", kEarlier)};
  BudgetInputs limited = inputs(searches);  // 4 s and 5 s without it
  limited.time_limit_s = 3;
  const Budget budget = make_budget(ten_candidates(100), limited);
  EXPECT_DOUBLE_EQ(budget.total_s().value(), 3 + 9);
  EXPECT_EQ(budget.ended_by_limit_s, 3);
  limited.time_limit_s = 30;
  EXPECT_FALSE(make_budget(ten_candidates(100), limited).ended_by_limit_s);
}

TEST(SearchBudget, PastSearchesAreReadFromTheirRuns) {
  const auto run = [](const std::string& environment, const std::string& result) {
    store::RunRecord record;
    record.problem = "p";
    record.environment = environment;
    record.options = R"({"cache_mode": "model", "settings": "s"})";
    record.result = result;
    return record;
  };
  SearchTime of_two = kEarlier;
  of_two.devices = 2;
  const std::string took = json{{"took", to_json(of_two)}}.dump();
  const store::RunRecord runs[] = {run("here", took), run("elsewhere", took), run("here", ""),
                                   run("here", R"({"seconds": 3})"), run("here", "no json")};
  const std::vector<PastSearch> found = past_searches(runs, "here");
  ASSERT_EQ(found.size(), 1);
  EXPECT_EQ(found[0].settings, "s");
  EXPECT_EQ(found[0].time.compiled, kEarlier.compiled);
  EXPECT_EQ(found[0].time.devices, 2);
  EXPECT_EQ(found[0].time.measured, kEarlier.measured);
  EXPECT_EQ(found[0].time.measure_s, kEarlier.measure_s);
  EXPECT_EQ(found[0].time.finals_s, kEarlier.finals_s);
}

TEST(SearchBudget, PredictionIsComparedWithWhatHappened) {
  const PastSearch searches[] = {past("p", kEarlier)};
  EXPECT_EQ(compare_with(make_budget(ten_candidates(100), inputs(searches)), kEarlier),
            "predicted 18 s (compile 4.0 s, device 14 s), took 40 s (compile 6.0 s, device 29 s)\n");
}

TEST(SearchBudget, SaysWhatItsCountsAre) {
  Rehearsal rehearsal = ten_candidates(100);
  EXPECT_THAT(describe(make_budget(rehearsal, inputs())), HasSubstr(" 14 kernels: 4 answered"));
  rehearsal.counts = Counts::about;
  EXPECT_THAT(describe(make_budget(rehearsal, inputs())), HasSubstr("about 14 kernels: 4 answered"));
  EXPECT_EQ(to_json(make_budget(rehearsal, inputs()))["counts"], "about");
  rehearsal.counts = Counts::at_most;
  EXPECT_THAT(describe(make_budget(rehearsal, inputs())), HasSubstr("at most 10 to be measured"));
  EXPECT_EQ(to_json(make_budget(rehearsal, inputs()))["counts"], "at most");
}

}  // namespace
}  // namespace fusetune::cli
