// train, predict and evaluate, as the research notes use them and with recorded measurements.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "block/problem.h"
#include "cli/program.h"
#include "model/features.h"
#include "model/synthetic.h"
#include "model/training_data.h"
#include "store/plan_records.h"

namespace fusetune::cli_test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;
using testing::Not;

const std::string kNotesFile = "train_data_xgboost.txt";

/// The notes' file: `count` plans around 54 in no particular unit.
std::string training_text(std::size_t count) {
  std::vector<model::MeasuredMask> rows;
  for (const plan::FusionPlan& plan : model::some_plans(count)) {
    const double value = 20 * model::shape_of(plan);
    rows.push_back({plan.canonical_mask(), value, {value}});
  }
  return model::format_training_data(rows);
}

class ModelCommands : public testing::Test {
 protected:
  base::TemporaryDirectory directory_;

  std::filesystem::path path(const std::string& name) const { return directory_.path() / name; }
  void write(const std::string& name, const std::string& content) const {
    base::write_file_atomic(path(name), content);
  }
  Outcome run(const std::vector<std::string>& words) const { return fusetune(words, directory_.path()); }
  void train_as_the_notes_do() const {
    write(kNotesFile, training_text(300));
    const Outcome trained = run({"train", "--data", kNotesFile});
    ASSERT_EQ(trained.exit_code, 0) << trained.err;
    EXPECT_THAT(trained.out, HasSubstr("fitted to 300 plans, 3"));
    EXPECT_THAT(trained.out, HasSubstr("saved in cost_model.json and cost_model.meta.json"));
    EXPECT_THAT(trained.out, HasSubstr("on 60 plans held out: Spearman 0.9"));
    EXPECT_THAT(trained.err, HasSubstr("300 lines: 300 plans"));
  }
};

TEST_F(ModelCommands, TheWorkflowOfTheResearchNotes) {
  train_as_the_notes_do();
  const Outcome predicted = run({"predict", "0100010111011101"});
  EXPECT_EQ(predicted.exit_code, 0) << predicted.err;
  EXPECT_THAT(predicted.err, IsEmpty());
  EXPECT_THAT(predicted.out, MatchesRegex("[0-9]+\\.[0-9][0-9][0-9] [01]\n"));
  const double truth = 20 * model::shape_of(plan::FusionPlan::from_mask({0b0100010111011101}));
  EXPECT_NEAR(std::stod(predicted.out), truth, 0.2 * truth);
}

TEST_F(ModelCommands, TimesInSecondsHaveDigits) {
  std::string lines;
  for (const plan::FusionPlan& plan : model::some_plans(60))
    lines += fmt::format("{} {:e}\n", plan.canonical_mask().to_binary(), 2e-5 * model::shape_of(plan));
  write(kNotesFile, lines);
  ASSERT_EQ(run({"train", "--data", kNotesFile}).exit_code, 0);
  const Outcome predicted = run({"predict", "0100010111011101"});
  EXPECT_THAT(predicted.out, MatchesRegex("[0-9]\\.[0-9][0-9]e-0[0-9] [01]\n"));
  const double truth = 2e-5 * model::shape_of(plan::FusionPlan::from_mask({0b0100010111011101}));
  EXPECT_NEAR(std::stod(predicted.out) / truth, 1, 0.3) << predicted.out;
}

TEST_F(ModelCommands, WithoutAModelSaysHowToGetOne) {
  const Outcome predicted = run({"predict", "0"});
  EXPECT_EQ(predicted.exit_code, 3);
  EXPECT_THAT(predicted.err, AllOf(HasSubstr("no cost model cost_model.json"), HasSubstr("fusetune train"),
                                   HasSubstr("--cost-model shipped")));
}

TEST_F(ModelCommands, NothingToEvaluateIsABadAnswer) {
  const std::string recorded = FUSETUNE_SOURCE_DIR "/data/recorded/small-1x64.jsonl.gz";
  const Outcome evaluated = run({"evaluate", "--db", recorded, "--problem", "batch=7"});
  EXPECT_EQ(evaluated.exit_code, 1);
  EXPECT_THAT(evaluated.err, HasSubstr("no such plan"));
}

TEST_F(ModelCommands, OneLineAMaskInTheOrderGiven) {
  train_as_the_notes_do();
  write("masks.txt", "0\n10922\n");
  const Outcome run_all = run({"predict", "48996", "--file", "masks.txt"});
  std::string expected;
  for (const char* mask : {"48996", "0", "10922"}) expected += run({"predict", mask}).out;
  EXPECT_EQ(run_all.out, expected);
  EXPECT_EQ(std::count(expected.begin(), expected.end(), '\n'), 3);
}

TEST_F(ModelCommands, JsonIsReadAsLinesAre) {
  train_as_the_notes_do();
  const std::string model = base::read_file(path("cost_model.json"));
  json rows = json::array();
  for (const model::MeasuredMask& row : model::parse_training_data(training_text(300), "").rows) {
    if (rows.size() % 2 == 0)
      rows.push_back({{"mask", row.mask.value}, {"value", row.value}});
    else
      rows.push_back({{"bits", row.mask.to_binary()}, {"value", row.value}});
  }
  write(kNotesFile, rows.dump(1));  // the same name: a model says what it was made from
  ASSERT_EQ(run({"train", "--data", kNotesFile}).exit_code, 0);
  EXPECT_EQ(base::read_file(path("cost_model.json")), model);
  write("masks.json", "[48996, \"0000000000000000\",\n {\"mask\": 10922}]");
  EXPECT_EQ(run({"predict", "--file", "masks.json"}).out, run({"predict", "48996", "0", "10922"}).out);
  write("bad.json", "[48996,\n {\"mask\": 65536}]");
  for (const std::vector<std::string>& words : {std::vector<std::string>{"predict", "--file", "bad.json"},
                                                std::vector<std::string>{"train", "--data", "bad.json"}}) {
    const Outcome bad = run(words);
    EXPECT_EQ(bad.exit_code, 2);
    EXPECT_THAT(bad.err, HasSubstr("bad.json:2: \"mask\" is 65536"));
  }
}

TEST_F(ModelCommands, RowsOfEveryPlan) {
  train_as_the_notes_do();
  const Outcome csv = run({"predict", "--all", "--csv"});
  EXPECT_EQ(std::count(csv.out.begin(), csv.out.end(), '\n'), 1 + 17408);
  EXPECT_THAT(csv.out, testing::StartsWith("mask,binary,plan,value,class,probability\n0,"));
  const json rows = json::parse(run({"predict", "48996", "--json"}).out);
  EXPECT_EQ(rows.at(0)["mask"], 48996);
  EXPECT_GT(rows[0]["value"], 0);
  EXPECT_EQ(rows[0]["class"], rows[0]["probability"] >= 0.5 ? 1 : 0);
  EXPECT_EQ(run({"predict", "--all", "7"}).exit_code, 2);
}

TEST_F(ModelCommands, ExplainNamesWhatDroveThePrediction) {
  train_as_the_notes_do();
  const Outcome run_explain = run({"predict", "48996", "--explain"});
  EXPECT_EQ(run_explain.exit_code, 0);
  EXPECT_THAT(run_explain.out, HasSubstr("1011111101100100   "));
  EXPECT_THAT(run_explain.out, HasSubstr("factor on the time"));
  EXPECT_THAT(run_explain.out, HasSubstr("operators 7 and 8 are apart"));
  EXPECT_EQ(run({"predict", "48996", "--explain", "--json"}).exit_code, 2);
}

TEST_F(ModelCommands, TheSameSeedWritesTheSameFiles) {
  write(kNotesFile, training_text(100));
  ASSERT_EQ(run({"train", "--data", kNotesFile, "--out", "a.json", "--rounds", "20"}).exit_code, 0);
  ASSERT_EQ(run({"train", "--data", kNotesFile, "--out", "b.json", "--rounds", "20"}).exit_code, 0);
  const Outcome other =
      run({"train", "--data", kNotesFile, "--out", "c.json", "--rounds", "20", "--seed", "1"});
  EXPECT_THAT(other.out, HasSubstr("fusetune predict 0100010111011101 --cost-model c.json"));
  EXPECT_EQ(base::read_file(path("a.json")), base::read_file(path("b.json")));
  EXPECT_NE(base::read_file(path("a.json")), base::read_file(path("c.json")));
  const json sidecar = json::parse(base::read_file(path("a.meta.json")));
  EXPECT_EQ(sidecar["rows"], 100);
  EXPECT_EQ(sidecar["schema"], "plan_bits");
  EXPECT_TRUE(sidecar["metrics_held_out"].contains("spearman"));
}

TEST_F(ModelCommands, TooLittleDataLeavesTheOldModelAsItWas) {
  train_as_the_notes_do();
  const std::string model = base::read_file(path("cost_model.json"));
  const std::string sidecar = base::read_file(path("cost_model.meta.json"));
  const std::string one = "0100010111011101 54.524\n";
  std::string equal, failed, infinite = training_text(9) + "1010101010101010 inf\n";
  for (const plan::FusionPlan& plan : model::some_plans(50)) {
    equal += plan.canonical_mask().to_binary() + " 7\n";
    failed += plan.canonical_mask().to_binary() + " nan\n";
  }
  const std::pair<std::string, const char*> cases[] = {{"", "0 usable rows"},
                                                       {one, "1 usable rows"},
                                                       {equal, "all 50 rows are High Performance"},
                                                       {failed, "0 usable rows (50 without"},
                                                       {infinite, "9 usable rows (1 without"}};
  for (const auto& [text, reason] : cases) {
    write("little.txt", text);
    const Outcome trained = run({"train", "--data", "little.txt"});
    EXPECT_EQ(trained.exit_code, 1) << reason;
    EXPECT_THAT(trained.out, IsEmpty());
    EXPECT_THAT(trained.err, HasSubstr(reason));
    EXPECT_THAT(trained.err, HasSubstr("cost_model.json stays as it was"));
    EXPECT_EQ(base::read_file(path("cost_model.json")), model);
    EXPECT_EQ(base::read_file(path("cost_model.meta.json")), sidecar);
  }
}

TEST_F(ModelCommands, BadLinesAreUsageErrorsThatNameThem) {
  write("bad.txt", "0100010111011101 54.524\n0100010111011101 1,5\n");
  for (const char* command : {"train", "evaluate"}) {
    const Outcome bad = run({command, "--data", "bad.txt"});
    EXPECT_EQ(bad.exit_code, 2);
    EXPECT_THAT(bad.err, HasSubstr("bad.txt:2: '1,5' is no number"));
    EXPECT_EQ(run({command}).exit_code, 2);
    EXPECT_EQ(run({command, "--data", "no-such-file"}).exit_code, 3);
    EXPECT_EQ(run({command, "--data", "a", "--db", "b"}).exit_code, 2);
  }
  EXPECT_FALSE(std::filesystem::exists(path("cost_model.json")));
}

TEST_F(ModelCommands, OptionsOutOfRangeAreUsageErrors) {
  write(kNotesFile, training_text(20));
  for (const char* fraction : {"0", "1.5", "-1", "nan", "0,1"})
    EXPECT_EQ(run({"train", "--data", kNotesFile, "--high-fraction", fraction}).exit_code, 2) << fraction;
  EXPECT_EQ(run({"train", "--data", kNotesFile, "--rounds", "0"}).exit_code, 2);
  EXPECT_EQ(run({"train", "--data", kNotesFile, "--out", "."}).exit_code, 2);
  EXPECT_EQ(run({"train", "--data", kNotesFile, "--out", "none/m.json"}).exit_code, 3);
  EXPECT_EQ(run({"predict"}).exit_code, 2);
}

TEST_F(ModelCommands, PredictNeedsAModelThatIsOne) {
  const Outcome none = run({"predict", "7"});
  EXPECT_EQ(none.exit_code, 3);
  EXPECT_THAT(none.err, HasSubstr("cost_model.json"));
  write("broken.json", "{\"learner\"");
  const Outcome broken = run({"predict", "7", "--cost-model", "broken.json"});
  EXPECT_EQ(broken.exit_code, 3);
  EXPECT_THAT(broken.err, HasSubstr("'broken.json' is no cost model for this program: it is not JSON"));
  EXPECT_THAT(broken.out, IsEmpty());
}

TEST_F(ModelCommands, AModelOfMasksKnowsNoProblem) {
  train_as_the_notes_do();
  const Outcome asked = run({"predict", "7", "--seq", "64"});
  EXPECT_EQ(asked.exit_code, 2);
  EXPECT_THAT(asked.err, HasSubstr("knows no problem"));
}

TEST_F(ModelCommands, EvaluatePrintsTheNoiseCeilingBesideTheCorrelation) {
  write(kNotesFile, training_text(200) + training_text(200));
  const json rows = json::parse(run({"evaluate", "--data", kNotesFile, "--json", "--rounds", "50"}).out);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0]["plans"], 200);
  EXPECT_GT(rows[0]["spearman"], 0.8);
  EXPECT_EQ(rows[0]["noise_ceiling"], 1) << "both measurements say the same";
  write(kNotesFile, training_text(200));
  const Outcome text = run({"evaluate", "--data", kNotesFile, "--rounds", "50"});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("noise ceiling"));
  EXPECT_THAT(text.out, HasSubstr("0 plans were measured twice"));
  EXPECT_THAT(text.out, HasSubstr("No problem was held out: one problem only"));
  write("little.txt", training_text(9));
  EXPECT_EQ(run({"evaluate", "--data", "little.txt"}).exit_code, 1);
}

// --- Recorded measurements.

store::PlanRecord record(const block::Problem& problem, const plan::FusionPlan& plan, double time_us) {
  store::PlanRecord result;
  result.problem = problem.key();
  result.environment = "env-a";
  result.mask = plan.canonical_mask().value;
  result.sources_hash = "h";
  result.cache_mode = "model";
  result.measurement.outcome = measure::Outcome::ok;
  result.measurement.time = {time_us, 1, time_us, 3};
  result.measurement.samples_us = {time_us, time_us, time_us};
  result.sampled = store::Sampled::uniform;
  return result;
}

/// Two problems of 60 plans each; one plan again with a slower schedule, one that failed, one of cache mode
/// warm.
void fill(const std::filesystem::path& file) {
  store::TuningStore database(file);
  for (const std::int64_t seq : {16, 64}) {
    const block::Problem problem = model::small_problem(seq);
    database.begin_run(problem.key(), {"env-a", {{"isa", "avx2"}, {"threads", "2"}}}, "{}");
    const std::vector<plan::FusionPlan> plans = model::some_plans(62);
    const auto time_of = [&](std::size_t i) { return static_cast<double>(seq) * model::shape_of(plans[i]); };
    for (std::size_t i = 0; i < 60; ++i) database.record_plan(record(problem, plans[i], time_of(i)));
    store::PlanRecord slower = record(problem, plans[0], 1e9);
    slower.sources_hash = "other";
    database.record_plan(slower);
    store::PlanRecord failed = record(problem, plans[60], 1);
    failed.measurement = {};
    failed.measurement.outcome = measure::Outcome::wrong_result;
    database.record_plan(failed);
    store::PlanRecord warm = record(problem, plans[61], 1);
    warm.cache_mode = "warm";
    database.record_plan(warm);
  }
}

TEST_F(ModelCommands, RecordedPlansOfAllProblems) {
  fill(path("fusetune.db"));
  EXPECT_EQ(store::read_plan_records(path("fusetune.db")).plans.size(), 2u * 63);
  const Outcome trained = run({"train", "--db", "fusetune.db", "--json"});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_THAT(trained.err, HasSubstr("120 plans of env-a"));
  EXPECT_THAT(trained.err, HasSubstr("2 with other schedules, of which the fastest counts"));
  EXPECT_THAT(trained.err, Not(HasSubstr("no plans that are known to be sampled uniformly")));
  const json row = json::parse(trained.out).at(0);
  EXPECT_EQ(row["rows"], 120);
  EXPECT_EQ(row["left_out"], 2);
  const std::vector<std::string> sizes = {"--heads", "2",   "--head-size", "16",
                                          "--ffn",   "128", "--layers",    "12"};
  // Measured twice: the slower schedule, of 1e9 us, must not count.
  const plan::FusionPlan plan = model::some_plans(62)[0];
  const std::string mask = plan.canonical_mask().to_binary();
  const double shape = model::shape_of(plan);
  const auto predict = [&](const std::string& seq) {
    std::vector<std::string> words = {"predict", mask, "--json", "--seq", seq, "--eps", "1e-5"};
    words.insert(words.end(), sizes.begin(), sizes.end());
    return run(words);
  };
  for (const double seq : {16.0, 64.0}) {
    const Outcome known = predict(std::to_string(static_cast<int>(seq)));
    ASSERT_EQ(known.exit_code, 0) << known.err;
    EXPECT_NEAR(json::parse(known.out).at(0)["time_us"].get<double>() / (seq * shape), 1, 0.3);
    EXPECT_THAT(known.err, Not(HasSubstr("extrapolated")));
  }
  EXPECT_THAT(predict("32").err, HasSubstr("extrapolated"));
  const Outcome of_defaults = run({"predict", "0"});
  EXPECT_EQ(of_defaults.exit_code, 0);
  EXPECT_THAT(of_defaults.err, HasSubstr("no problem was given: this is batch 1  seq 128  heads 12 x 64"));
  EXPECT_THAT(of_defaults.err, HasSubstr("extrapolated"));
  const json scores = json::parse(run({"evaluate", "--db", "fusetune.db", "--json"}).out);
  EXPECT_EQ(scores.size(), 4u) << "two problems, by held-out plans and by held-out problems";
  EXPECT_EQ(scores[2]["held_out"], "problems");
  EXPECT_EQ(scores[0]["noise_ceiling"], 1) << "of the odd and the even samples of each plan";
}

/// The same plans in a unit in which all times are a thousandth, but for one that has no time in the other.
void add_other_unit(const std::filesystem::path& file) {
  store::TuningStore database(file);
  const block::Problem problem = model::small_problem(16);
  const std::vector<plan::FusionPlan> plans = model::some_plans(62);
  for (std::size_t i = 20; i < 62; ++i) {
    store::PlanRecord other = record(problem, plans[i], 0.016 * model::shape_of(plans[i]));
    other.settings = "samples=24 min_time=0.001 reference=b";
    other.measurement.reference_us = 1;
    other.measurement.slowdown = 1;
    database.record_plan(other);
  }
}

TEST_F(ModelCommands, TimesInOtherUnitsAreLeftOut) {
  fill(path("fusetune.db"));
  fill(path("mixed.db"));
  add_other_unit(path("mixed.db"));
  const Outcome mixed = run({"train", "--db", "mixed.db", "--out", "mixed.json", "--json"});
  ASSERT_EQ(mixed.exit_code, 0) << mixed.err;
  EXPECT_THAT(mixed.err, HasSubstr("120 plans of env-a"));
  EXPECT_THAT(mixed.err, HasSubstr("left out 2 without a time, 42 in other units (42 of data generated, "
                                   "samples=24 min_time=0.001 reference=b, protocol 1, reference 1.0 us)"));
  EXPECT_EQ(json::parse(mixed.out).at(0)["left_out"], 44);
  ASSERT_EQ(run({"train", "--db", "fusetune.db", "--out", "alone.json"}).exit_code, 0);
  EXPECT_EQ(base::read_file(path("mixed.json")), base::read_file(path("alone.json")));
}

TEST_F(ModelCommands, RecordedPlansOfOneProblem) {
  fill(path("fusetune.db"));
  const Outcome trained =
      run({"train", "--db", "fusetune.db", "--problem", "seq=64 batch=1", "--out", "m.json"});
  EXPECT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_THAT(trained.out, HasSubstr("fitted to 60 plans"));
  EXPECT_EQ(run({"predict", "0", "--cost-model", "m.json"}).exit_code, 0)
      << "the model's only problem is meant";
  EXPECT_EQ(run({"train", "--db", "fusetune.db", "--problem", "seq=6"}).exit_code, 1) << "no word of any";
  EXPECT_EQ(run({"train", "--db", "fusetune.db", "--cache", "warm"}).exit_code, 1);
  EXPECT_THAT(run({"train", "--db", "fusetune.db", "--environment", "other"}).err,
              HasSubstr("env-a, isa avx2"));
  EXPECT_EQ(run({"train", "--db", "none.db"}).exit_code, 3);
}

TEST_F(ModelCommands, RecordedLinesStandForTheirDatabase) {
  fill(path("fusetune.db"));
  ASSERT_EQ(run({"train", "--db", "fusetune.db", "--out", "db.json"}).exit_code, 0);
  ASSERT_EQ(run({"db", "export", "--jsonl=rows.jsonl"}).exit_code, 0);
  ASSERT_EQ(shell("gzip -k rows.jsonl", directory_.path()).exit_code, 0);
  for (const auto& [option, file] : {std::pair{"--data", "rows.jsonl"}, std::pair{"--db", "rows.jsonl.gz"}}) {
    const Outcome trained = run({"train", option, file, "--out", "lines.json"});
    ASSERT_EQ(trained.exit_code, 0) << file << trained.err;
    EXPECT_THAT(trained.err, HasSubstr(std::string(file) + ": 120 plans of env-a"));
    EXPECT_EQ(base::read_file(path("lines.json")), base::read_file(path("db.json"))) << file;
  }
  write("cut.jsonl.gz", base::read_file(path("rows.jsonl.gz")).substr(0, 200));
  EXPECT_THAT(run({"train", "--db", "cut.jsonl.gz"}).err, HasSubstr("cut.jsonl.gz: gzip cannot unpack it"));
}

/// The problem of data/recorded/small-1x64.
const std::vector<std::string> kRecordedProblem = {"--batch",     "1",  "--seq", "64",  "--heads",  "4",
                                                   "--head-size", "32", "--ffn", "512", "--layers", "2"};

Outcome explain(std::vector<std::string> words) {
  words.insert(words.begin(), "explain");
  words.insert(words.end(), kRecordedProblem.begin(), kRecordedProblem.end());
  return fusetune(words);
}

TEST(Explain, PutsMeasuredTimesBesideTheBordersTheyAreAbout) {
  const std::string recorded = FUSETUNE_SOURCE_DIR "/data/recorded/small-1x64.jsonl.gz";
  const Outcome run = explain({"10922", "--db", recorded, "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const auto said = nlohmann::json::parse(run.out);
  EXPECT_EQ(said["mask"], 10922);
  EXPECT_THAT(said["measured"]["environment"].get<std::string>(), HasSubstr("AMD EPYC"));
  const auto& rows = said["borders"];
  ASSERT_EQ(rows.size(), 14u);
  EXPECT_EQ(rows[0]["border"], "0|1");
  EXPECT_EQ(rows[0]["operators"], "qkv_gemm | qkv_bias");
  EXPECT_EQ(rows[0]["now"], "split");
  EXPECT_EQ(rows[0]["kernels"], -1);
  EXPECT_LT(rows[0]["bytes"], 0);
  for (const auto& row : rows) {
    EXPECT_GT(row["predicted_ratio"], 0.2);
    EXPECT_LT(row["predicted_ratio"], 5);
    // The data have a time of every segment, of plans a sample only.
    EXPECT_GT(row["fused_us"], 0);
    EXPECT_GT(row["parts_us"], 0);
    EXPECT_TRUE(row["measured_ratio"].is_null() || row["measured_ratio"] > 0);
  }
  const Outcome text = explain({"10922", "--db", recorded});
  EXPECT_THAT(text.out, HasSubstr("AMD EPYC"));
  EXPECT_THAT(text.out, HasSubstr("factor on the time"));
  EXPECT_THAT(text.out, HasSubstr("softmax | context"));
}

// Largest effect first.
TEST(Explain, NamesEveryFeatureAndWhatItDid) {
  const Outcome run = explain({"10922", "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const auto said = nlohmann::json::parse(run.out);
  EXPECT_GT(said["predicted"]["time"], 0);
  EXPECT_TRUE(said["measured"]["time_us"].is_null());
  const auto& features = said["features"];
  EXPECT_EQ(features.size(), model::features(model::Schema::plan).size());
  double last = std::numeric_limits<double>::infinity();
  for (const auto& feature : features) {
    const double size = std::abs(std::log(feature["factor"].get<double>()));
    EXPECT_LE(size, last + 1e-12) << feature;
    last = size;
    if (feature["feature"] == "kernels") {
      EXPECT_EQ(feature["value"], 15);
    }
  }
}

TEST(Explain, WorksWithoutADatabase) {
  const Outcome run = explain({"48996"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("no kernel holds all of attention then"));
  EXPECT_THAT(run.out, HasSubstr("fusetune.db has nothing of this problem"));
  EXPECT_EQ(explain({"48996", "--db", "none.db"}).exit_code, 2);
  EXPECT_EQ(explain({"0", "1"}).exit_code, 2);
  EXPECT_EQ(explain({"0", "--cost-model", "none.json"}).exit_code, 3);
}

}  // namespace
}  // namespace fusetune::cli_test
