// generate, verify, run and bench on a block small enough to compile and run in seconds.
#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "block/npy.h"
#include "cli/program.h"

namespace fusetune::cli_test {
namespace {

using testing::HasSubstr;
using testing::Not;

/// Odd sizes on purpose: no multiple of a tile, a vector or a mask tile.
const std::vector<std::string> kSmall = {"--heads", "2",      "--head-size", "20",       "--seq",
                                         "33",      "--mask", "causal",      "--layers", "2"};

Outcome on_small_block(std::vector<std::string> words, const std::filesystem::path& directory = {}) {
  words.insert(words.end(), kSmall.begin(), kSmall.end());
  return fusetune(words, directory);
}

TEST(Generate, PrintsTheKernelsOfAPlanInOrder) {
  const Outcome run = on_small_block({"generate", "48996"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("#include \"cpu/"));
  EXPECT_THAT(run.err, HasSubstr("default"));
  EXPECT_LT(run.out.find("ft_segment_0_0"), run.out.find("ft_segment_13_14"));
}

TEST(Generate, IsDeterministic) {
  EXPECT_EQ(on_small_block({"generate", "0"}).out, on_small_block({"generate", "0"}).out);
}

TEST(Generate, StandaloneFilesCompileAlone) {
  const base::TemporaryDirectory directory;
  const Outcome run = on_small_block(
      {"generate", "48996", "--standalone", "--isa", "generic", "--out", "sources"}, directory.path());
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("segment_1_6_hand_written.cpp"));
  const Outcome compile = shell(
      "for f in sources/*.cpp; do c++ -std=c++20 -c -fPIC -O0 -w -o /dev/null $f || exit 1; done; ls sources "
      "| wc -l",
      directory.path());
  EXPECT_EQ(compile.exit_code, 0) << compile.err;
  EXPECT_EQ(std::stoi(compile.out), 7);
}

/// A compiler beside somebody's measurement would be in it.
TEST(Generate, CompilesOnlyWhileNobodyTimes) {
  const base::TemporaryDirectory directory;
  const std::string generate =
      "\"$FUSETUNE\" generate --variant \"[1]\" --compile --heads 1 --head-size 8 --seq 8";
  ASSERT_EQ(shell(generate + " >alone.cpp", directory.path()).exit_code, 0);  // the lock's file is there now
  const Outcome run = shell("export FUSETUNE; flock -o /tmp/fusetune-cpu.lock sh -c '" + generate +
                                " >beside.cpp 2>said & tries=0;"
                                " until grep -q waiting said || [ $tries = 300 ]; do"
                                "   sleep 0.1; tries=$((tries + 1)); done;"
                                " kill $!; cat said'",
                            directory.path());
  EXPECT_THAT(run.out, HasSubstr("waiting for another fusetune on this machine before compiling"));
  EXPECT_THAT(run.out, Not(HasSubstr("compiled")));
}

TEST(Verify, ChecksEachKernelAndThePlan) {
  const Outcome run = on_small_block({"verify", "48996", "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.out << run.err;
  const auto rows = nlohmann::json::parse(run.out);
  ASSERT_EQ(rows.size(), 7u + 1u);
  for (const auto& row : rows) {
    EXPECT_EQ(row["outcome"], "ok") << row;
    EXPECT_LE(row["norm_error"], 1e-5) << row;
    EXPECT_LE(row["worst_error"], 2e-5) << row;
  }
}

TEST(Verify, OneLinePerKernelForPeople) {
  const Outcome run = on_small_block({"verify", "--variant", "[2-6]*", "[7-9]"});
  EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
  EXPECT_THAT(run.out, HasSubstr("ok             [2-6]*     norm "));
  EXPECT_THAT(run.out, HasSubstr("ok             [7-9]      norm "));
  EXPECT_THAT(run.err, HasSubstr("2 checked, 0 failed"));
}

/// The building blocks in `directory`/kernels, with what LayerNorm adds replaced.
void write_kernels(const std::filesystem::path& directory, const std::string& instead) {
  const std::filesystem::path kernels = directory / "kernels";
  std::filesystem::copy(FUSETUNE_SOURCE_DIR "/kernels", kernels, std::filesystem::copy_options::recursive);
  std::string rows = base::read_file(kernels / "cpu/rows.h");
  const std::string right = "load(beta + j)";
  const std::size_t at = rows.find(right);
  ASSERT_NE(at, std::string::npos) << "cpu/rows.h no longer holds " << right;
  base::write_file_atomic(kernels / "cpu/rows.h", rows.replace(at, right.size(), instead));
}

/// LayerNorm adds gamma for beta: the check must find it, say where, and how to repeat it.
TEST(Verify, AWrongKernelFailsWithCoordinatesAndACommandThatRepeatsIt) {
  const base::TemporaryDirectory directory;
  write_kernels(directory.path(), "load(gamma + j)");
  const Outcome run =
      on_small_block({"verify", "--variant", "[14]", "--kernel-dir", "kernels"}, directory.path());
  EXPECT_EQ(run.exit_code, 1) << run.out << run.err;
  EXPECT_THAT(run.out, HasSubstr("wrong_result"));
  EXPECT_THAT(run.out, testing::ContainsRegex("output at \\[[0-9]+,[0-9]+,[0-9]+\\]: got .*, want "));
  EXPECT_THAT(run.out, HasSubstr("repeat: fusetune verify --variant '[14]' --schedule-text '"));
  EXPECT_THAT(run.out, HasSubstr("--head-size 20"));
}

TEST(Verify, SixteenBitFloatsAreRefusedByName) {
  const Outcome run = on_small_block({"verify", "0", "--dtype", "f16"});
  EXPECT_EQ(run.exit_code, 2) << run.out;
  EXPECT_THAT(run.err, HasSubstr("f16"));
}

TEST(Verify, WhatDidNotRunHasNoErrors) {
  const base::TemporaryDirectory directory;
  write_kernels(directory.path(), "load(beta + [&] { for (volatile int go = 1; go;) {} return j; }())");
  const Outcome run = on_small_block(
      {"verify", "--variant", "[14]", "--kernel-dir", "kernels", "--run-timeout", "0.5", "--json"},
      directory.path());
  EXPECT_EQ(run.exit_code, 1) << run.err;
  EXPECT_THAT(run.out, HasSubstr("\"timeout\"")) << run.out;
  EXPECT_THAT(run.out, HasSubstr("\"norm_error\":null")) << run.out;
}

TEST(RunCommand, SaysThatWeightsAreGenerated) {
  base::TemporaryDirectory directory;
  base::write_file_atomic(directory.path() / "config.json",
                          R"({"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32,
                              "num_hidden_layers": 1, "layer_norm_eps": 1e-12, "hidden_act": "gelu"})");
  const Outcome run = fusetune({"run", "0", "--hf-model", directory.path().string(), "--seq", "4"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("model.safetensors: weights are generated"));
}

TEST(RunCommand, WritesOutputAndTheDataItUsed) {
  const base::TemporaryDirectory directory;
  const Outcome run =
      on_small_block({"run", "0", "--output", "y.npy", "--save-data", "data"}, directory.path());
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("1 x 33 x 40"));
  const auto output = block::read_npy_floats(directory.path() / "y.npy");
  EXPECT_EQ(output.shape, (std::vector<std::int64_t>{1, 33, 40}));
  for (const float value : output.values) ASSERT_TRUE(std::isfinite(value));
  EXPECT_EQ(block::read_npy_floats(directory.path() / "data/w_qkv.npy").shape,
            (std::vector<std::int64_t>{40, 120}));
  EXPECT_EQ(block::read_npy_booleans(directory.path() / "data/mask.npy").shape,
            (std::vector<std::int64_t>{1, 33, 33}));
  EXPECT_THAT(base::read_file(directory.path() / "data/problem.txt"), HasSubstr("seq=33"));
}

/// The saved input, given back, is the same run; another plan gives the same block to rounding.
TEST(RunCommand, SavedInputReproducesTheOutput) {
  const base::TemporaryDirectory directory;
  ASSERT_EQ(
      on_small_block({"run", "0", "--output", "a.npy", "--save-data", "data"}, directory.path()).exit_code,
      0);
  ASSERT_EQ(on_small_block({"run", "0", "--output", "b.npy", "--input", "data/hidden.npy"}, directory.path())
                .exit_code,
            0);
  ASSERT_EQ(on_small_block({"run", "10922", "--output", "c.npy"}, directory.path()).exit_code, 0);
  const auto a = block::read_npy_floats(directory.path() / "a.npy").values;
  EXPECT_EQ(a, block::read_npy_floats(directory.path() / "b.npy").values);
  const auto c = block::read_npy_floats(directory.path() / "c.npy").values;
  ASSERT_EQ(a.size(), c.size());
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], c[i], 1e-4) << i;
}

TEST(Bench, FirstPlanIsTheBaseline) {
  const Outcome run = on_small_block({"bench", "10922", "48996", "--pairs", "20", "--json"});
  ASSERT_THAT(run.exit_code, testing::AnyOf(0, 1)) << run.err;
  const auto rows = nlohmann::json::parse(run.out);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["mask"], 10922);
  for (const auto& row : rows) {
    // On a busy machine a series may be refused as noisy; then it has no time.
    if (row["outcome"] == "ok") {
      EXPECT_GT(row["median_us"], 0);
      EXPECT_LE(row["ratio_low"], row["ratio"]);
      EXPECT_GE(row["ratio_high"], row["ratio"]);
    } else {
      EXPECT_EQ(row["outcome"], "noisy");
      EXPECT_TRUE(row["median_us"].is_null());
    }
  }
  EXPECT_EQ(run.exit_code == 0, rows[0]["outcome"] == "ok" && rows[1]["outcome"] == "ok");
}

TEST(Profile, TimesEachKernelAndWritesATrace) {
  const base::TemporaryDirectory directory;
  const Outcome run = on_small_block({"profile", "48996", "--passes", "9", "--json=kernels.json", "--csv",
                                      "--trace", "trace.json", "--sqlite", "p.db"},
                                     directory.path());
  if (run.exit_code == 1 && run.err.find("noisy: ") != std::string::npos)
    GTEST_SKIP() << "this machine is too busy to time anything";
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, testing::StartsWith("kernel,calls,total_us,mean_us,"));

  const auto rows = nlohmann::json::parse(base::read_file(directory.path() / "kernels.json"));
  ASSERT_EQ(rows.size(), 7u);
  EXPECT_EQ(rows[1]["kernel"], "[1-6]*");
  double share = 0, total_us = 0;
  for (const auto& row : rows) {
    EXPECT_EQ(row["calls"], 9);
    EXPECT_LE(row["min_us"], row["mean_us"]);
    EXPECT_GE(row["max_us"], row["median_us"]);
    EXPECT_NEAR(row["total_us"].get<double>(), 9 * row["mean_us"].get<double>(), 1e-6);
    share += row["share_percent"].get<double>();
    total_us += row["total_us"].get<double>();
  }
  EXPECT_NEAR(share, 100, 1e-6);

  SQLite::Database file((directory.path() / "p.db").string());
  EXPECT_EQ(file.execAndGet("SELECT count(*) FROM launch").getInt(), 9 * 7);
  EXPECT_EQ(file.execAndGet("SELECT count(*) FROM host_call").getInt(),
            0);  // kernels are the process's own work
  const Outcome again = on_small_block({"profile", "0", "--sqlite", "p.db"}, directory.path());
  EXPECT_EQ(again.exit_code, 2) << again.out;
  EXPECT_THAT(again.err, HasSubstr("'p.db' exists"));

  // A pass is its kernels, one behind the other.
  const auto trace = nlohmann::json::parse(base::read_file(directory.path() / "trace.json"));
  std::map<int, double> track_us;
  std::map<int, int> events;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    track_us[event["tid"]] += event["dur"].get<double>();
    ++events[event["tid"]];
  }
  EXPECT_EQ(events, (std::map<int, int>{{1, 9}, {2, 9 * 7}}));
  EXPECT_NEAR(track_us[1], total_us, 0.1);  // events are rounded to nanoseconds
  EXPECT_NEAR(track_us[2], total_us, 0.1);
}

TEST(Profile, RefusesSeveralPlansAndNone) {
  EXPECT_THAT(fusetune({"profile", "0", "1"}).err, HasSubstr("one MASK"));
  EXPECT_EQ(fusetune({"profile"}).exit_code, 2);
  EXPECT_EQ(fusetune({"profile", "0", "--passes", "0"}).exit_code, 2);
}

TEST(Schedules, GivenOnTheCommandLineVariantByVariant) {
  const Outcome checked =
      on_small_block({"verify", "--variant", "[0]", "[14]", "--schedules", "all", "--json"});
  ASSERT_EQ(checked.exit_code, 0) << checked.err;
  std::map<std::string, std::string> last;  // by variant: the schedule that is least likely the default
  for (const auto& row : nlohmann::json::parse(checked.out)) last[row["kernel"]] = row["schedule"];
  const Outcome made = on_small_block({"generate", "10922", "--schedule-text", "[0]: " + last["[0]"],
                                       "--schedule-text", "[14]: " + last["[14]"], "--quiet"});
  for (const auto& [variant, schedule] : last) EXPECT_THAT(made.out, HasSubstr(schedule)) << variant;
  const std::pair<const char*, const char*> bad[] = {{"tile=2x8", "expected a segment variant before it"},
                                                     {"[3-6]*: tile=2x8", "'[3-6]*' is no segment variant"},
                                                     {"[0] tile=2x8", "expected a ':'"}};
  for (const auto& [text, reason] : bad) {
    const Outcome run = on_small_block({"run", "10922", "--schedule-text", text});
    EXPECT_EQ(run.exit_code, 2) << text;
    EXPECT_THAT(run.err, HasSubstr(reason));
  }
}

TEST(Schedules, FilesAreReadAndBadLinesNamed) {
  const FileOf file("# nothing but a mistake\n[3-6]* handoff=barrier\n");
  const Outcome run = on_small_block({"generate", "0", "--schedule", file.path()});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("file.txt:2: '[3-6]*' is no segment variant"));
}

}  // namespace
}  // namespace fusetune::cli_test
