// The data in data/recorded and the model in models/ that was fitted to them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "model/cost_model.h"
#include "plan/fusion_plan.h"
#include "program.h"
#include "store/tuning_store.h"

namespace fusetune::cli_test {
namespace {

using nlohmann::json;

std::vector<std::filesystem::path> recorded_files() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(FUSETUNE_SOURCE_DIR "/data/recorded"))
    if (entry.path().extension() == ".gz") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

/// A database of all recorded files, made once.
class RecordedData : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    directory_ = std::make_unique<base::TemporaryDirectory>();
    std::vector<std::string> words = {"db", "import", "--db", "recorded.db"};
    for (const std::filesystem::path& file : recorded_files()) words.push_back(file.string());
    const Outcome imported = run(words);
    ASSERT_EQ(imported.exit_code, 0) << imported.err;
  }
  static void TearDownTestSuite() { directory_.reset(); }

  static Outcome run(const std::vector<std::string>& words) { return fusetune(words, directory_->path()); }
  static store::TuningStore recorded() { return store::TuningStore(directory_->path() / "recorded.db"); }

  static std::unique_ptr<base::TemporaryDirectory> directory_;
};
std::unique_ptr<base::TemporaryDirectory> RecordedData::directory_;

TEST_F(RecordedData, IsSoundAndSaysHowItWasMeasured) {
  ASSERT_EQ(recorded_files().size(), 3u);
  EXPECT_TRUE(recorded().check().empty());
  const store::Contents contents = recorded().contents();
  ASSERT_FALSE(contents.environments.empty());
  for (const store::EnvironmentRecord& environment : contents.environments)
    for (const char* field : {"device", "isa", "threads", "compiler"})
      EXPECT_TRUE(environment.fields.contains(field)) << field;
  for (const store::PlanRecord& plan : contents.plans) {
    if (plan.measurement.outcome != measure::Outcome::ok) continue;
    EXPECT_GT(plan.measurement.reference_us, 0) << plan.mask;
  }
}

TEST_F(RecordedData, HoldsEveryVariantAndEnoughUniformPlansOfTheLargestSet) {
  const store::Contents contents = recorded().contents();
  std::map<std::string, std::set<int>> variants;
  std::map<std::string, int> uniform;
  for (const store::TuningRecord& segment : contents.segments)
    if (segment.measurement.outcome == measure::Outcome::ok)
      variants[segment.key.problem].insert(segment.key.variant);
  for (const store::PlanRecord& plan : contents.plans)
    uniform[plan.problem] +=
        plan.sampled == store::Sampled::uniform && plan.measurement.outcome == measure::Outcome::ok;
  ASSERT_EQ(variants.size(), 3u);
  int most = 0;
  for (const auto& [problem, seen] : variants) {
    EXPECT_EQ(seen.size(), static_cast<std::size_t>(plan::kVariantCount)) << problem;
    EXPECT_GE(uniform[problem], 200) << problem;
    most = std::max(most, uniform[problem]);
  }
  EXPECT_GE(most, 2000);
}

TEST_F(RecordedData, TheShippedModelIsTheOneFittedToThem) {
  const Outcome trained = run({"train", "--db", "recorded.db", "--out", "again.json", "--json"});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  const model::CostModel again = model::CostModel::load(directory_->path() / "again.json");
  const model::CostModel shipped = model::CostModel::shipped();
  EXPECT_EQ(shipped.info().training_hash, again.info().training_hash)
      << "the data changed: run tools/train_models";
  EXPECT_EQ(shipped.info().schema, model::Schema::plan);
  EXPECT_EQ(shipped.info().groups.size(), 3u);
  const block::Problem problem = block::Problem::parse(shipped.info().groups.front());
  const auto& plans = plan::all_plans();
  const std::vector<model::Prediction> ours = shipped.predict(problem, plans),
                                       theirs = again.predict(problem, plans);
  for (std::size_t i = 0; i < plans.size(); ++i) {
    ASSERT_NEAR(ours[i].time, theirs[i].time, 1e-4 * ours[i].time) << i;
    ASSERT_NEAR(ours[i].probability, theirs[i].probability, 1e-3) << i;
  }
  // Below it, a model would be no help; models/plans.meta.json has the figure.
  EXPECT_GE(shipped.info().metrics.at("spearman"), 0.4);
}

TEST_F(RecordedData, TheShippedModelOfKernelsIsTheOneFittedToThem) {
  std::vector<std::string> import = {"db", "import", "--db", "kernels.db"};
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(FUSETUNE_SOURCE_DIR "/data/recorded"))
    if (entry.path().extension() == ".gz") import.push_back(entry.path().string());
  ASSERT_EQ(run(import).exit_code, 0);
  const Outcome trained =
      run({"train", "--db", "kernels.db", "--segments", "--rounds", "100", "--out", "kernels.json"});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  const model::CostModel again = model::CostModel::load(directory_->path() / "kernels.json");
  const model::CostModel shipped = model::CostModel::shipped_for_segments();
  EXPECT_EQ(shipped.info().training_hash, again.info().training_hash)
      << "the data changed: run tools/train_models";
  EXPECT_EQ(shipped.info().schema, model::Schema::segment);
  EXPECT_EQ(shipped.info().groups, again.info().groups);
  EXPECT_EQ(shipped.info().options.threads, 1);
  const model::ProblemFacts facts(block::Problem{});
  const model::Device device(lower::CpuTarget{.isa = lower::Isa::avx2, .threads = 2}, 32 << 20);
  model::FeatureTable table(model::Schema::segment);
  for (const plan::SegmentVariant& variant : plan::all_variants())
    table.add(variant, lower::default_schedule(variant, facts.problem(), device.target), facts, device);
  const auto ours = shipped.predict(table), theirs = again.predict(table);
  for (std::size_t i = 0; i < ours.size(); ++i)
    ASSERT_NEAR(ours[i].time, theirs[i].time, 1e-4 * ours[i].time) << i;
  // On problems held out; models/segments.meta.json has the figure.
  EXPECT_GE(shipped.info().metrics.at("spearman"), 0.9);
  EXPECT_LE(std::filesystem::file_size(FUSETUNE_SOURCE_DIR "/models/segments.json"), std::size_t{2} << 20);
}

TEST_F(RecordedData, TeachAModelOfKernelsThatKnowsOtherProblems) {
  const Outcome evaluated =
      run({"evaluate", "--db", "recorded.db", "--segments", "--rounds", "50", "--json"});
  ASSERT_EQ(evaluated.exit_code, 0) << evaluated.err;
  EXPECT_NE(evaluated.err.find("1284 kernels of"), std::string::npos) << evaluated.err;
  std::map<std::string, int> rows;
  for (const json& row : json::parse(evaluated.out)) {
    ++rows[row["held_out"]];
    EXPECT_EQ(row["kernels"], 428);
    EXPECT_GT(row["spearman"], row["held_out"] == "kernels" ? 0.98 : 0.9) << row;
    EXPECT_GT(row["roofline"], 0.9) << row;
    EXPECT_GT(row["noise_ceiling"], row["spearman"]) << row;
    EXPECT_GE(row["path_regret"], 0) << row;
    EXPECT_LT(row["path_regret"], 0.5) << row;
    EXPECT_GT(row["plan_noise_ceiling"], 0.6) << row;
    if (row["held_out"] == "kernels") {
      EXPECT_GT(row["plan_spearman"], 0.3) << row;
    }
    EXPECT_TRUE(row["top8_holds_best"].is_boolean()) << row;
  }
  EXPECT_EQ(rows, (std::map<std::string, int>{{"kernels", 3}, {"problems", 3}, {"masks", 3}, {"sizes", 3}}))
      << "there is one environment";
  EXPECT_EQ(run({"evaluate", "--db", "recorded.db", "--segments", "--strategies", "mask"}).exit_code, 2);
  EXPECT_EQ(run({"evaluate", "--db", "recorded.db", "--segments", "--environment", "none"}).exit_code, 2);
}

/// What small-1x64 was recorded on, under another name and twice as slow.
TEST_F(RecordedData, KernelsOfSeveralEnvironmentsAreLearnedTogether) {
  const Outcome copied =
      shell("gunzip -c " FUSETUNE_SOURCE_DIR
            "/data/recorded/small-1x64.jsonl.gz > a.jsonl\n"
            "sed -e 's/b4b54f3ae11a7f0039dbadc1b8edd05a/feedf00d000000000000000000000000/g' "
            "    -e 's/\"threads\":\"2\"/\"threads\":\"1\"/' a.jsonl > b.jsonl\n"
            "$FUSETUNE db import --db two.db a.jsonl b.jsonl",
            directory_->path());
  ASSERT_EQ(copied.exit_code, 0) << copied.err;
  const Outcome trained =
      run({"train", "--db", "two.db", "--segments", "--rounds", "20", "--out", "two.json"});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_NE(trained.out.find("fitted to 856 kernels"), std::string::npos) << trained.out;
  EXPECT_NE(trained.err.find("428 kernels of b4b54f3a"), std::string::npos) << trained.err;
  EXPECT_NE(trained.err.find("428 kernels of feedf00d"), std::string::npos) << trained.err;
  const model::CostModel together = model::CostModel::load(directory_->path() / "two.json");
  EXPECT_EQ(together.info().schema, model::Schema::segment);
  ASSERT_EQ(together.info().groups.size(), 2u);
  EXPECT_TRUE(together.info().groups[1].ends_with(" on feedf00d")) << together.info().groups[1];
  const Outcome one = run({"train", "--db", "two.db", "--segments", "--rounds", "20", "--environment", "feed",
                           "--out", "one.json"});
  EXPECT_NE(one.out.find("fitted to 428 kernels"), std::string::npos) << one.out;
  EXPECT_EQ(run({"predict", "0", "--cost-model", "one.json"}).exit_code, 2) << "it knows kernels, not plans";
}

/// `guided` replayed on small-2x48-causal with other words for what it begins with, and its answer.
class PriorsOnRecordedData : public RecordedData {
 protected:
  static Outcome replay(const std::string& recorded, const std::vector<std::string>& more) {
    std::vector<std::string> words = {"search", "--replay", recorded, "--strategy", "guided", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const std::vector<std::string> problem = {"--heads",  "4",      "--head-size", "24", "--ffn", "256",
                                              "--layers", "2",      "--batch",     "2",  "--seq", "48",
                                              "--mask",   "causal", "--trials",    "100"};
    words.insert(words.end(), problem.begin(), problem.end());
    return run(words);
  }
  static json replayed(const std::vector<std::string>& more) {
    const Outcome outcome = replay("recorded.db", more);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return json::parse(outcome.out);
  }
  /// Lines of `file` with the times of kernels dealt out anew: every other word stays what it was.
  static std::string shuffled(const std::string& file, const std::string& to) {
    return "grep -v '\"kind\":\"segment\"' " + file + " > " + to + "\n" +   //
           "grep '\"kind\":\"segment\"' " + file + " > kernels\n" +         //
           "grep -o '\"median_us\":[0-9.e+-]*' kernels | sort > times\n" +  //
           "paste -d '#' times kernels | "                                  //
           "sed -E 's/^([^#]*)#(.*)\"median_us\":[0-9.e+-]*/\\2\\1/' >> " +
           to + "\n";
  }
};

TEST_F(PriorsOnRecordedData, AModelIsUsedOnlyWhereItRanksTheProbes) {
  const std::string train = "$FUSETUNE train --segments --rounds 50 --db ";
  const Outcome made =
      shell("gunzip -c " FUSETUNE_SOURCE_DIR "/data/recorded/small-1x64.jsonl.gz > model-a.jsonl\n" +
                shuffled("model-a.jsonl", "model-b.jsonl") + train + "model-a.jsonl --out a.json\n" + train +
                "model-b.jsonl --out b.json",
            directory_->path());
  ASSERT_EQ(made.exit_code, 0) << made.err;
  json without = replayed({"--cost-model", "none"}), with = replayed({"--cost-model", "a.json"}),
       refused = replayed({"--cost-model", "b.json"});
  EXPECT_TRUE(without["prior"].is_null());
  const json& test = with["prior"]["tests"][0];
  EXPECT_EQ(with["prior"]["used"], "model") << with;
  EXPECT_EQ(test["name"], "a.json");
  EXPECT_GE(test["probes"], with["prior"]["needed_probes"]);
  EXPECT_GE(test["spearman"], with["prior"]["needed_spearman"]);
  EXPECT_GE(test["spearman"], test["roofline_spearman"]);
  EXPECT_EQ(refused["prior"]["used"], "roofline") << refused;
  EXPECT_LT(refused["prior"]["tests"][0]["spearman"], refused["prior"]["needed_spearman"]) << refused;
  refused["prior"] = nullptr;
  EXPECT_EQ(refused, without) << "a refused model changes nothing";
  EXPECT_EQ(replay("recorded.db", {"--cost-model", FUSETUNE_SOURCE_DIR "/models/plans.json"}).exit_code, 2)
      << "a model of plans";
}

TEST_F(PriorsOnRecordedData, AnotherDevicesTimesAreUsedOnlyWhereTheyRankTheProbes) {
  const Outcome made = shell("gunzip -c " FUSETUNE_SOURCE_DIR
                             "/data/recorded/small-2x48-causal.jsonl.gz > here.jsonl\n"
                             "sed -e 's/b4b54f3ae11a7f0039dbadc1b8edd05a/feedf00d000000000000000000000000/g' "
                             "    -e 's/\"threads\":\"2\"/\"threads\":\"1\"/' here.jsonl > there.jsonl\n" +
                                 shuffled("there.jsonl", "wrong.jsonl") +
                                 "sed 's/feedf00d/beef0000/g' there.jsonl > third.jsonl\n"
                                 "$FUSETUNE db import --db several.db here.jsonl there.jsonl third.jsonl",
                             directory_->path());
  ASSERT_EQ(made.exit_code, 0) << made.err;
  json without = replayed({"--cost-model", "none"}),
       with = replayed({"--cost-model", "none", "--prior-from", "there.jsonl"}),
       refused = replayed({"--cost-model", "none", "--prior-from", "wrong.jsonl"});
  EXPECT_EQ(with["prior"]["used"], "records") << with;
  EXPECT_EQ(with["prior"]["tests"][0]["spearman"], 1) << "they are the same times";
  const std::string name = with["prior"]["tests"][0]["name"];
  EXPECT_THAT(name, testing::AllOf(testing::HasSubstr("there.jsonl"), testing::HasSubstr("feedf00d"),
                                   testing::HasSubstr("threads 1")));
  EXPECT_LT(with["regret"], without["regret"]);
  EXPECT_EQ(refused["prior"]["used"], "roofline") << refused;
  refused["prior"] = nullptr;
  EXPECT_EQ(refused, without) << "refused times change nothing";
  const json both = replayed({"--prior-from", "wrong.jsonl"});
  EXPECT_EQ(both["prior"]["used"], "model") << "the shipped model was tested after it: " << both;
  EXPECT_EQ(both["prior"]["tests"].size(), 2u);

  EXPECT_THAT(replay("recorded.db", {"--prior-from", "here.jsonl"}).err,
              testing::HasSubstr("no kernels of this problem that another device timed"));
  EXPECT_THAT(replay("recorded.db", {"--prior-from", "several.db"}).err,
              testing::AllOf(testing::HasSubstr("--prior-environment START"), testing::HasSubstr("feedf00d"),
                             testing::HasSubstr("beef0000"), testing::Not(testing::HasSubstr("b4b54f3a"))));
  EXPECT_EQ(replayed({"--prior-from", "several.db", "--prior-environment", "feed"})["prior"]["used"],
            "records");
}

TEST_F(PriorsOnRecordedData, OnlyGuidedBeginsWithThem) {
  for (const char* option : {"--prior-from=a.db", "--prior-environment=ab", "--cost-model=shipped"}) {
    const Outcome refused = run({"search", "--replay", "recorded.db", "--strategy", "exhaustive", option});
    EXPECT_EQ(refused.exit_code, 2) << option;
    EXPECT_THAT(refused.err, testing::HasSubstr("`guided` do")) << option;
  }
  EXPECT_THAT(replay("recorded.db", {"--prior-environment", "ab"}).err,
              testing::HasSubstr("one of the devices in --prior-from"));
  EXPECT_EQ(replay("recorded.db", {"--prior-from", "absent.db"}).exit_code, 3);
}

TEST_F(RecordedData, StandInForADevice) {
  const auto replayed = [](const std::string& strategy, const std::string& trials) {
    const Outcome outcome = run({"search", "--replay", "recorded.db", "--strategy", strategy, "--trials",
                                 trials, "--preset", "minilm-l6", "--batch", "1", "--seq", "128", "--json"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return json::parse(outcome.out);
  };
  const json all = replayed("exhaustive", "10000");
  EXPECT_EQ(all["recorded"], 428);
  EXPECT_EQ(all["trials"], 428);
  EXPECT_EQ(all["stopped"], "");
  EXPECT_EQ(all["regret"], 0);
  EXPECT_EQ(all["brute_force_us"], all["recorded_best_us"])
      << "no plan of all is shorter than the shortest path";
  const json guided = replayed("guided", "10000");
  EXPECT_LE(guided["trials"], 428);
  EXPECT_LT(guided["regret"], 0.02);
  const json mask = replayed("mask", "128");
  EXPECT_GE(mask["recorded"], 2000);
  EXPECT_LE(mask["trials"], 128);
  EXPECT_LT(mask["regret"], 0.05);
  EXPECT_GT(mask["time_us"], 0);
}

TEST_F(RecordedData, SayHowFarTheSumOfKernelsCanBeTrusted) {
  const Outcome outcome = run({"evaluate", "--db", "recorded.db", "--sums", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const json rows = json::parse(outcome.out);
  ASSERT_EQ(rows.size(), 3u);
  for (const json& row : rows) {
    EXPECT_GE(row["plans"], 200) << row;
    EXPECT_LT(row["ratio_5"], row["ratio_50"]) << row;
    EXPECT_LT(row["ratio_50"], row["ratio_95"]) << row;
    EXPECT_NEAR(row["modelled_50"], 1, 0.02) << row;
    EXPECT_GT(row["modelled_near"], 0.4 + row["near"].get<double>()) << "the bias is gone: " << row;
  }
  EXPECT_EQ(run({"evaluate", "--db", "recorded.db", "--sums", "--segments"}).exit_code, 2);
  EXPECT_EQ(run({"evaluate", "--data", "masks.txt", "--sums"}).exit_code, 2);
  EXPECT_EQ(run({"evaluate", "--db", "recorded.db", "--sums", "--problem", "seq=77"}).exit_code, 1);
}

TEST_F(RecordedData, SayWhetherTheAuditOfPruningTellsTheTruth) {
  const Outcome outcome =
      run({"evaluate", "--db", "recorded.db", "--problem", "seq=128", "--audit", "--repeats", "1", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const json rows = json::parse(outcome.out);
  ASSERT_EQ(rows.size(), 1u) << "of one problem there is no sum over all";
  EXPECT_EQ(rows[0]["replays"], 1);
  EXPECT_EQ(rows[0]["kernels"], 428);
  EXPECT_LT(rows[0]["timed"], 428);
  EXPECT_GE(rows[0]["regret"], 0);
  EXPECT_GE(rows[0]["worst_regret"], rows[0]["regret"]);
  EXPECT_EQ(rows[0]["seen_loss"].get<double>() > 0, rows[0]["worst_regret"] > 0.01);
  EXPECT_LE(rows[0]["estimated_loss"], 0.1) << "an audit that says more does not pass";
  EXPECT_EQ(run({"evaluate", "--db", "recorded.db", "--audit", "--sums"}).exit_code, 2);
  EXPECT_EQ(run({"evaluate", "--db", "recorded.db", "--repeats", "2"}).exit_code, 2);
}

TEST_F(RecordedData, IsReplayedFromItsFileToo) {
  const auto replayed = [](const std::string& file) {
    const Outcome outcome =
        run({"search",  "--replay", file,          "--strategy", "random", "--trials", "20",
             "--heads", "4",        "--head-size", "32",         "--ffn",  "512",      "--layers",
             "2",       "--batch",  "1",           "--seq",      "64",     "--json"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    json result = json::parse(outcome.out);
    result.erase("replayed");
    return result;
  };
  const json packed = replayed(FUSETUNE_SOURCE_DIR "/data/recorded/small-1x64.jsonl.gz");
  EXPECT_EQ(packed["recorded"], 261);
  EXPECT_EQ(packed, replayed("recorded.db"));
}

TEST_F(RecordedData, ReplayNeedsWhatItIsAskedFor) {
  const Outcome other = run({"search", "--replay", "recorded.db", "--seq", "77"});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_NE(other.err.find("no segments that make a plan"), std::string::npos) << other.err;
  const Outcome timed = run({"search", "--replay", "recorded.db", "--strategy", "random", "--time-limit", "5",
                             "--preset", "minilm-l6", "--batch", "1", "--seq", "128"});
  EXPECT_EQ(timed.exit_code, 2);
  EXPECT_NE(timed.err.find("--trials only"), std::string::npos) << timed.err;
  EXPECT_NE(run({"search", "--replay", "absent.db"}).exit_code, 0);
}

TEST_F(RecordedData, TheShippedModelPredictsWithoutAnyFile) {
  const Outcome predicted = run({"predict", "0", "10922", "--cost-model", "shipped", "--preset", "minilm-l6",
                                 "--batch", "1", "--seq", "128", "--json"});
  ASSERT_EQ(predicted.exit_code, 0) << predicted.err;
  const json rows = json::parse(predicted.out);
  EXPECT_EQ(predicted.err, "");  // it was fitted to this problem
  EXPECT_LT(rows.at(0).at("time_us").get<double>(), rows.at(1).at("time_us").get<double>());
}

}  // namespace
}  // namespace fusetune::cli_test
