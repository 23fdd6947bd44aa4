// The whole program searching a tiny problem: winner, reuse, kill and resume, faults, interrupts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/file.h"
#include "cli/program.h"

namespace fusetune::cli_test {
namespace {

using testing::HasSubstr;

/// A problem whose kernels take microseconds, and as little timing as gives an answer.
const std::string kProblem =
    " --batch 1 --seq 16 --heads 2 --head-size 8 --ffn 32 --layers 2 --isa generic --threads 1";
const std::string kTiming = " --samples 5 --min-time 0.02 --pairs 20 --finalists 2";

/// Databases in a directory of the test's own; compiled kernels in one cache for all tests.
class SearchProgram : public testing::Test {
 protected:
  static void SetUpTestSuite() { directory_ = new base::TemporaryDirectory; }
  static void TearDownTestSuite() { delete directory_; }
  static std::filesystem::path at(const std::string& name) { return directory_->path() / name; }

  static cli_test::Outcome search(const std::string& options, const std::string& before = "") {
    return shell("export FUSETUNE_CACHE_DIR='" SEARCH_TEST_CACHE "'; " + before + "\"$FUSETUNE\" search" +
                     kProblem + kTiming + options,
                 directory_->path());
  }
  static nlohmann::json json(const cli_test::Outcome& run) {
    nlohmann::json parsed = nlohmann::json::parse(run.out, nullptr, false);
    EXPECT_FALSE(parsed.is_discarded()) << run.out << run.err;
    return parsed;
  }
  /// A copy of the building blocks, named `name`, whose GEMM runs `fault` before each panel; `declaration` is
  /// put before the function.
  static void plant_in_gemm(const std::string& name, const std::string& fault,
                            const std::string& declaration = "") {
    const std::filesystem::path kernels = at(name), file = kernels / "cpu/gemm.h";
    std::filesystem::copy(FUSETUNE_SOURCE_DIR "/kernels", kernels, std::filesystem::copy_options::recursive);
    std::string gemm = base::read_file(file);
    const std::string place = "  const float* panel = w.data + p * w.k * width;\n";
    const std::string function = "/// C[rows x panel] (+)=";
    ASSERT_NE(gemm.find(place), std::string::npos) << "gemm.h has changed: plant the fault elsewhere";
    ASSERT_LT(gemm.find(function), gemm.find(place)) << "gemm.h has changed: plant the fault elsewhere";
    gemm.insert(gemm.find(place), fault);
    gemm.insert(gemm.find(function), declaration);
    base::write_file_atomic(file, gemm);
  }
  /// A stand-in compiler for kernels of kProblem: [0-4] writes past the end of its output, [4-9] never ends,
  /// [12-14] never compiles; all others take some 50 us longer than they should.
  static std::string faulty_compiler() {
    const std::filesystem::path script = at("faulty-c++");
    base::write_file_atomic(script, R"sh(#!/bin/sh
plant() { echo "/void ft_segment_$1_/,/using namespace ft;/s/using namespace ft;/& $2/"; }
for word; do
  case $word in *.cpp)
    if grep -q 'void ft_segment_12_14_' "$word"; then exec sleep 1000; fi
    sed -i -e "$(plant 0_4 'static_cast<float*>(args->tensor[7])[512] = 1;')" \
           -e "$(plant 4_9 'for (volatile int go = 1; go;) {}')" \
           -e "$(plant '[0-9]*_[0-9]*' 'for (volatile int i = 0; i < 30000; i = i + 1) {}')" "$word" ;;
  esac
done
exec c++ "$@"
)sh");
    std::filesystem::permissions(script, std::filesystem::perms::owner_all);
    return script.string();
  }
  static int outcomes(const nlohmann::json& result, const std::string& outcome) {
    return result["search"]["outcomes"].value(outcome, 0);
  }

  /// Where all segments are known `guided` has only plans to time, those that were finalists among them. A
  /// second search finds their times as they were taken, though some have become finalists again.
  static void expect_guided_goes_on_from(const std::string& database) {
    const std::string options = " --json --db " + database;  // guided is the default
    nlohmann::json first = json(search(options));
    EXPECT_GE(first["search"]["measured"], 2) << "a comparison's times are no answers";
    // A finalist that was noisy when timed again keeps its comparison's time and gets its next chance in the
    // next search.
    for (int more = 0; more < 5 && outcomes(first, "noisy") > 0; ++more) first = json(search(options));
    const nlohmann::json second = json(search(options));
    SCOPED_TRACE(first["search"].dump() + "\nthen " + second["search"].dump());
    EXPECT_GE(first["search"]["plans"]["timed"], 2);
    EXPECT_GE(first["search"]["plans"]["predicted"], 100) << "made of the kernels that were timed";
    EXPECT_GT(first["best"]["sum_us"], 0);
    EXPECT_GE(first["certificate"]["gain"], 0);
    EXPECT_EQ(second["search"]["measured"], 0);
    EXPECT_EQ(second["predicted"]["to_measure"], 0) << "rehearsed as it runs";
    EXPECT_EQ(second["predicted"]["total_s"], 0) << "its comparison is known";
    EXPECT_EQ(second["search"]["plans"], first["search"]["plans"]);
    EXPECT_EQ(second["reused_comparison"], true);
    EXPECT_EQ(second["best"]["mask"], first["best"]["mask"]);
    const cli_test::Outcome small = search(" --strategy guided --trials 20 --json --db guided.db");
    EXPECT_THAT(small.err, HasSubstr("`guided` times whole plans, as `bayesian`"));
    EXPECT_EQ(small.exit_code, 0) << small.err;
  }

  static base::TemporaryDirectory* directory_;
};
base::TemporaryDirectory* SearchProgram::directory_ = nullptr;

TEST_F(SearchProgram, FindsAWinnerThenAnswersFromTheStore) {
  // In slices, each of which resumes the one before: a busy machine must not run into the test's time limit.
  nlohmann::json found;
  std::string stopped;
  for (int slice = 0; slice < 30; ++slice) {
    const cli_test::Outcome run = search(" --strategy exhaustive --db full.db --json --time-limit 60");
    ASSERT_EQ(run.exit_code, 0) << run.err;
    EXPECT_THAT(run.err, testing::Not(HasSubstr("\r"))) << "no terminal, no control characters";
    found = json(run);
    EXPECT_EQ(found["best"]["outcome"], "ok");
    EXPECT_GT(found["best"]["time"]["median_us"], 0);
    stopped = found["stopped"];
    if (stopped.empty()) break;
  }
  ASSERT_EQ(stopped, "");
  SCOPED_TRACE(found["search"].dump() + found["finalists"].dump());
  EXPECT_GE(found["search"]["timed"], 140) << "all 147 but those that were noisy three times";

  const auto& finalists = found["finalists"];
  EXPECT_TRUE(std::any_of(finalists.begin(), finalists.end(), [](const nlohmann::json& finalist) {
    return finalist.contains("whole_over_sum") && finalist["kernels"] > 1 &&
           finalist["whole_over_sum"]["ratio"] > 0.2 && finalist["whole_over_sum"]["ratio"] < 5;
  })) << "no plan was timed beside its segments";

  EXPECT_GT(found["certificate"]["alpha"], 0);
  EXPECT_GE(found["certificate"]["gain"], 0);

  const cli_test::Outcome again = search(" --strategy exhaustive --db full.db --json");
  ASSERT_EQ(again.exit_code, 0) << again.err;
  const nlohmann::json second = json(again);
  EXPECT_EQ(second["search"]["measured"], 0);
  EXPECT_EQ(second["reused_comparison"], true);
  EXPECT_EQ(second["best"]["mask"], found["best"]["mask"]);
  EXPECT_EQ(second["best"]["schedules"], found["best"]["schedules"]);
  EXPECT_EQ(second["tied"], found["tied"]);
  EXPECT_EQ(second["whole_over_sum"], found["whole_over_sum"]);

  const nlohmann::json dry = json(search(" --strategy exhaustive --db full.db --json --dry-run"));
  EXPECT_EQ(dry["predicted"]["to_measure"], 0);
  EXPECT_EQ(dry["predicted"]["to_compile"], 0);
  EXPECT_EQ(dry["predicted"]["known"], dry["predicted"]["kernels"]);
  EXPECT_EQ(dry["predicted"]["total_s"], 0);
  EXPECT_EQ(dry["regret"]["regret"], 0) << "with all that is recorded it finds the best of it";

  const cli_test::Outcome text = search(" --strategy exhaustive --db full.db --verbose");
  for (const char* part :
       {"best plan", "95 % interval", "unfused", "all-fused", "ByteTransformer 48996", "schedules",
        "whole plan over the sum", "certificate: if every plan", "fusetune bench", "saved in full.db",
        "predicted 0 s (compile 0 s, device 0 s), took "}) {
    EXPECT_THAT(text.out, HasSubstr(part));
  }
  const cli_test::Outcome check =
      shell("\"$FUSETUNE\" db check --db full.db && \"$FUSETUNE\" db stats --db full.db", directory_->path());
  EXPECT_EQ(check.exit_code, 0) << check.out << check.err;
  EXPECT_THAT(check.out, HasSubstr("sound"));
  EXPECT_THAT(check.out, HasSubstr("segments ok"));
  expect_guided_goes_on_from("full.db");
}

TEST_F(SearchProgram, TimesWholePlansAndContinues) {
  for (const char* strategy : {"mask", "bayesian", "random", "anneal"}) {
    const std::string options =
        std::string(" --strategy ") + strategy + " --db " + strategy + ".db --json --trials ";
    const nlohmann::json first = json(search(options + "12"));
    EXPECT_EQ(first["search"]["measured"], 12) << strategy;
    EXPECT_THAT(first["stopped"].get<std::string>(), HasSubstr("--trials 12")) << strategy;
    EXPECT_EQ(first["best"]["outcome"], "ok") << strategy;
    const nlohmann::json second = json(search(options + "3"));
    EXPECT_EQ(second["search"]["measured"], 3) << strategy;
    // The others choose by what they have seen, and by how much is to come.
    EXPECT_GE(second["search"]["reused"], strategy == std::string("random") ? 6 : 1) << strategy;
  }
  // The finalists were drawn uniformly, and stay so.
  const cli_test::Outcome text = search(" --strategy random --db random.db --trials 1");
  EXPECT_THAT(text.out, testing::AllOf(HasSubstr("plans timed whole"), HasSubstr("95 % interval")));
}

TEST_F(SearchProgram, ACostModelIsReadBeforeAnyWork) {
  const cli_test::Outcome missing = search(" --strategy mask --cost-model none.json --db model.db");
  EXPECT_EQ(missing.exit_code, 3);
  EXPECT_THAT(missing.err, HasSubstr("none.json"));
  EXPECT_FALSE(std::filesystem::exists(at("model.db")));
}

TEST_F(SearchProgram, StopsAfterTrialsAndContinues) {
  const nlohmann::json first = json(search(" --strategy exhaustive --db trials.db --trials 30 --json"));
  EXPECT_EQ(first["search"]["measured"], 30);
  EXPECT_THAT(first["stopped"].get<std::string>(), HasSubstr("--trials 30"));
  EXPECT_EQ(first["best"]["outcome"], "ok");
  const nlohmann::json second = json(search(" --strategy exhaustive --db trials.db --trials 10 --json"));
  // All but noisy ones, which get another chance.
  EXPECT_GE(second["search"]["reused"], outcomes(first, "ok"));
  EXPECT_EQ(second["search"]["measured"], 10);
}

// Kernels timed with one thread are tested on those timed with two, and never answer for them.
TEST_F(SearchProgram, BeginsWithKernelsOfAnotherNumberOfThreads) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "two threads need two CPUs";
  const auto with_two = [](const std::string& options) {
    const std::string problem = kProblem.substr(0, kProblem.find(" --threads")) + " --threads 2";
    return shell("export FUSETUNE_CACHE_DIR='" SEARCH_TEST_CACHE "'; \"$FUSETUNE\" search" + problem +
                     kTiming + " --db threads.db --strategy guided --early-stop 45 --cost-model none" +
                     options,
                 directory_->path());
  };
  EXPECT_THAT(with_two(" --prior-from threads.db").err, HasSubstr("threads.db"));
  ASSERT_EQ(json(search(" --strategy exhaustive --db threads.db --trials 45 --json"))["search"]["measured"],
            45);
  const nlohmann::json found = json(with_two(" --prior-from threads.db --json"));
  EXPECT_EQ(found["best"]["outcome"], "ok");
  EXPECT_EQ(found["search"]["reused"], 0);
  const nlohmann::json& prior = found["prior"];
  ASSERT_EQ(prior["tests"].size(), 1u) << prior;
  const nlohmann::json& test = prior["tests"][0];
  EXPECT_THAT(test["name"].get<std::string>(), HasSubstr("threads 1"));
  EXPECT_GE(test["probes"], prior["needed_probes"]);
  ASSERT_TRUE(test["spearman"].is_number() && test["roofline_spearman"].is_number()) << test;
  // Of kernels that take microseconds on a machine that does other things nobody knows how they rank.
  const bool ranks =
      test["spearman"] >= prior["needed_spearman"] && test["spearman"] >= test["roofline_spearman"];
  EXPECT_EQ(test["trusted"], ranks);
  EXPECT_EQ(prior["used"], ranks ? "records" : "roofline");
}

// The report is not lost with a file that cannot be written, and its commands can be pasted.
TEST_F(SearchProgram, ReportsWhateverTheNamesOfItsFiles) {
  const cli_test::Outcome run =
      search(" --strategy exhaustive --db \"a'b.db\" --trials 30 --json=/no/such/result.json");
  EXPECT_EQ(run.exit_code, 3);
  EXPECT_THAT(run.err, HasSubstr("/no/such/result.json"));
  EXPECT_THAT(run.out, HasSubstr("best plan"));
  EXPECT_THAT(run.out, HasSubstr(R"(--db 'a'\''b.db')"));
}

// Progress, failures with what the compiler said, tables and results: all of it is text where it goes to
// files.
TEST_F(SearchProgram, WhatGoesToFilesHasNoControlCharacters) {
  ASSERT_NO_FATAL_FAILURE(
      plant_in_gemm("coloured", "  if (k_chunk == 4096) planted_error();\n",
                    "extern void planted_error() __attribute__((error(\"planted\")));\n"));
  const cli_test::Outcome run = search(
      " --strategy exhaustive --db plain.db --trials 25 --verbose --json=plain.json --kernel-dir coloured");
  EXPECT_THAT(run.out, HasSubstr("compile_failed")) << run.err;
  EXPECT_THAT(run.err, HasSubstr("candidates"));
  const cli_test::Outcome rows = shell(
      "\"$FUSETUNE\" db export --db plain.db --csv=plain.csv --table segments && "
      "\"$FUSETUNE\" db export --db plain.db --jsonl=plain.jsonl",
      directory_->path());
  EXPECT_EQ(rows.exit_code, 0) << rows.err;
  EXPECT_FALSE(has_control_characters(run.out)) << run.out;
  EXPECT_FALSE(has_control_characters(run.err)) << run.err;
  EXPECT_THAT(base::read_file(at("plain.json")), HasSubstr("planted")) << "what the compiler said";
  for (const char* file : {"plain.json", "plain.csv", "plain.jsonl"})
    EXPECT_FALSE(has_control_characters(base::read_file(at(file)))) << file;
}

TEST_F(SearchProgram, TimeoutsCountOnlyUnderLimitsThatAreNoLonger) {
  const cli_test::Outcome short_limit =
      search(" --strategy exhaustive --db limits.db --trials 20 --run-timeout 1e-9");
  EXPECT_EQ(short_limit.exit_code, 1) << short_limit.out;
  const nlohmann::json same =
      json(search(" --strategy exhaustive --db limits.db --trials 1 --run-timeout 1e-9 --json"));
  EXPECT_GE(same["search"]["reused"], 20);
  const nlohmann::json longer = json(search(" --strategy exhaustive --db limits.db --trials 20 --json"));
  EXPECT_EQ(longer["search"]["reused"], 0);
  EXPECT_EQ(longer["search"]["measured"], 20);
}

TEST_F(SearchProgram, OtherTimingSettingsAreOtherMeasurements) {
  const auto with = [](const std::string& timing, const std::string& trials) {
    return json(shell("export FUSETUNE_CACHE_DIR='" SEARCH_TEST_CACHE "'; \"$FUSETUNE\" search" + kProblem +
                          " --strategy exhaustive --db settings.db --json --trials " + trials + timing,
                      directory_->path()));
  };
  with(" --samples 5 --min-time 0.02", "10");
  EXPECT_EQ(with(" --samples 5 --min-time 0.03", "1")["search"]["reused"], 0);
  const nlohmann::json other = with(" --samples 6 --min-time 0.02", "30");
  EXPECT_EQ(other["search"]["reused"], 0);
  // All but noisy ones, which get another chance.
  EXPECT_GE(with(" --samples 6 --min-time 0.02", "30")["search"]["reused"], outcomes(other, "ok"));
}

TEST_F(SearchProgram, TooFewTrialsForAPlanIsAnAnswerWithAReason) {
  const cli_test::Outcome run = search(" --strategy exhaustive --db few.db --trials 3");
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.out, HasSubstr("no plan found"));
  EXPECT_THAT(run.out, HasSubstr("to continue:\n  fusetune search --batch 1"));
}

// Killed without notice, the committed rows stay and the next search goes on.
TEST_F(SearchProgram, KilledAndResumed) {
  const cli_test::Outcome killed = search(
      " --strategy exhaustive --db killed.db --trials 60 >/dev/null & pid=$!\n"
      "for i in $(seq 600); do\n"
      "  n=$(\"$FUSETUNE\" db stats --db killed.db --csv 2>/dev/null | sed -n 's/^segments ok,//p')\n"
      "  [ \"${n:-0}\" -ge 5 ] && break; sleep 0.1\n"
      "done\n"
      "kill -9 $pid; wait $pid; \"$FUSETUNE\" db check --db killed.db");
  EXPECT_EQ(killed.exit_code, 0) << killed.out << killed.err;
  const nlohmann::json resumed = json(search(" --strategy exhaustive --db killed.db --trials 30 --json"));
  EXPECT_GE(resumed["search"]["reused"], 5);
  EXPECT_EQ(resumed["search"]["measured"], 30);
  EXPECT_EQ(resumed["best"]["outcome"], "ok");
}

// Ctrl-C keeps what was measured, shows the best so far and how to continue.
TEST_F(SearchProgram, InterruptedSaysHowToContinue) {
  const cli_test::Outcome run = search(
      " --strategy exhaustive --db interrupted.db & pid=$!\n"
      "for i in $(seq 600); do\n"
      "  n=$(\"$FUSETUNE\" db stats --db interrupted.db --csv 2>/dev/null | sed -n 's/^segments ok,//p')\n"
      "  [ \"${n:-0}\" -ge 20 ] && break; sleep 0.1\n"
      "done\n"
      "kill -INT $pid; sleep 0.05; kill -INT $pid; wait $pid");  // as timeout(1) does
  EXPECT_EQ(run.exit_code, 130);
  EXPECT_THAT(run.out, HasSubstr("best so far"));
  EXPECT_THAT(run.out, HasSubstr("to continue:\n  fusetune search --batch 1"));
  const nlohmann::json stats = nlohmann::json::parse(
      shell("\"$FUSETUNE\" db stats --db interrupted.db --json", directory_->path()).out, nullptr, false);
  ASSERT_TRUE(stats.is_array());
  for (const nlohmann::json& row : stats) EXPECT_NE(row["what"], "segments started");
}

// A crashing, a hanging and a non-compiling candidate are three recorded failures; the search goes
// on.
TEST_F(SearchProgram, FaultyCandidatesCostThemselvesOnly) {
  // The K chunk is a constant of the generated kernel, so each fault is in one schedule of each GEMM.
  ASSERT_NO_FATAL_FAILURE(plant_in_gemm(
      "kernels",
      "  if (k_chunk == 384 && w.k == 16 && w.k_count == 16 && p == 0) __builtin_trap();\n"
      "  if (k_chunk == 4096) { if (w.k == 32) planted_error(); for (volatile int go = 1; go;) {} }\n",
      "extern void planted_error() __attribute__((error(\"planted\")));\n"));

  const cli_test::Outcome run =
      search(" --strategy exhaustive --db faults.db --trials 40 --run-timeout 3 --kernel-dir kernels --json");
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const nlohmann::json result = json(run);
  EXPECT_GE(outcomes(result, "crashed"), 1);
  EXPECT_GE(outcomes(result, "timeout"), 1);
  EXPECT_GE(outcomes(result, "compile_failed"), 1);
  EXPECT_GE(outcomes(result, "ok"), 15);
  EXPECT_EQ(result["best"]["outcome"], "ok");
  for (const nlohmann::json& failure : result["search"]["failures"]) {
    if (failure["outcome"] != "noisy") {
      EXPECT_THAT(failure["repeat"].get<std::string>(), HasSubstr("fusetune verify --variant"));
    }
    EXPECT_FALSE(failure["message"].get<std::string>().empty());
  }
  // They are known now: not run again.
  const nlohmann::json again = json(
      search(" --strategy exhaustive --db faults.db --trials 1 --run-timeout 3 --kernel-dir kernels --json"));
  EXPECT_GE(again["search"]["reused"], outcomes(result, "ok") + 3);
  for (const char* fault : {"crashed", "timeout", "compile_failed"}) {
    EXPECT_GE(outcomes(again, fault), 1) << fault;
  }
}

TEST_F(SearchProgram, ItsRowSaysHowItWasMade) {
  const std::string name = "o'p\"t.db";
  search(" --strategy exhaustive --trials 1 --time-limit 2m --db \"o'p\\\"t.db\"");
  const auto options_of = [&](const std::string& database) {
    const cli_test::Outcome rows = cli_test::fusetune(
        {"db", "export", "--table", "runs", "--json", "--db", database}, directory_->path());
    return nlohmann::json::parse(json(rows).at(0)["options"].get<std::string>());
  };
  const nlohmann::json options = options_of(name);
  EXPECT_EQ(cli_test::fusetune({"--version"}).out,
            "fusetune " + options["fusetune"].get<std::string>() + "\n");
  EXPECT_EQ(options["command"], "fusetune search" + kProblem + kTiming +
                                    " --strategy exhaustive --trials 1 --time-limit 2m --db 'o'\\''p\"t.db'");
  EXPECT_EQ(options["strategy"], "exhaustive");
  EXPECT_EQ(options["samples"], 5);
  EXPECT_DOUBLE_EQ(options["min_time_s"].get<double>(), 2e-5);
  EXPECT_EQ(options["trials"], 1);
  EXPECT_EQ(options["time_limit_s"], 120);
  EXPECT_TRUE(options["early_stop"].is_null());
  EXPECT_THAT(options["settings"].get<std::string>(),
              testing::StartsWith("samples=5 min_time=2e-05 reference="));
  ASSERT_EQ(
      cli_test::fusetune({"db", "export", "--db", name, "--jsonl=made.jsonl"}, directory_->path()).exit_code,
      0);
  ASSERT_EQ(
      cli_test::fusetune({"db", "import", "made.jsonl", "--db", "made.db"}, directory_->path()).exit_code, 0);
  EXPECT_EQ(options_of("made.db"), options);
}

// The row of a plan that failed holds a command that fails in the same way, with the same schedules, wherever
// it runs: LayerNorm is in no GEMM that is tuned alone, so that every whole plan is wrong.
TEST_F(SearchProgram, AFailedPlansCommandRepeatsIt) {
  const std::filesystem::path kernels = at("wrong");
  std::filesystem::copy(FUSETUNE_SOURCE_DIR "/kernels", kernels, std::filesystem::copy_options::recursive);
  std::string rows = base::read_file(kernels / "cpu/rows.h");
  const std::string right = "load(beta + j)";
  ASSERT_NE(rows.find(right), std::string::npos) << "cpu/rows.h no longer holds " << right;
  base::write_file_atomic(kernels / "cpu/rows.h",
                          rows.replace(rows.find(right), right.size(), "load(gamma + j)"));
  const cli_test::Outcome run =
      search(" --db wrong.db --strategy random --trials 2 --kernel-dir '" + kernels.string() + "' --json");
  EXPECT_EQ(run.exit_code, 1) << run.err;
  int repeated = 0;
  const nlohmann::json result = json(run);
  for (const nlohmann::json& failure : result["search"]["failures"]) {
    if (failure["repeat"].is_null()) continue;  // noisy
    std::string repeat = failure["repeat"];
    if (!repeat.starts_with("fusetune bench")) continue;
    ++repeated;
    repeat.replace(0, std::string("fusetune").size(), "\"$FUSETUNE\"");
    const cli_test::Outcome again =
        shell("export FUSETUNE_CACHE_DIR='" SEARCH_TEST_CACHE "'; " + repeat + " --json", directory_->path());
    EXPECT_EQ(again.exit_code, 1) << repeat << again.err;
    const nlohmann::json row = json(again).at(0);
    EXPECT_EQ(row["outcome"], "wrong_result");
    EXPECT_EQ(row["verdict"], failure["message"]);
    EXPECT_THAT(again.err, HasSubstr(" given"));
    EXPECT_THAT(again.err, testing::Not(HasSubstr(" default"))) << "schedules are part of what failed";
  }
  EXPECT_EQ(repeated, 2) << run.out;
}

// Of ten plans that are drawn, always the same, three are of the fewest kernels, where fewer are faster, and
// each of these has another fault: the best of the other seven wins, beside the references.
TEST_F(SearchProgram, ThreeFaultyPlansOfTenCostThemselvesOnly) {
  const cli_test::Outcome run =
      search(" --db ten.db --strategy random --trials 10 --run-timeout 3 --compile-timeout 12 --json --cxx " +
             faulty_compiler());
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const nlohmann::json result = json(run);
  EXPECT_EQ(result["search"]["measured"], 10);
  EXPECT_EQ(outcomes(result, "wrong_result"), 1) << result["search"];
  EXPECT_EQ(outcomes(result, "timeout"), 2) << result["search"];
  EXPECT_EQ(outcomes(result, "ok") + outcomes(result, "noisy"), 7) << result["search"];
  std::string failures;
  for (const nlohmann::json& failure : result["search"]["failures"])
    failures += failure["message"].get<std::string>();
  EXPECT_THAT(failures, testing::AllOf(HasSubstr("guard bytes"), HasSubstr("did not end within 12 s"),
                                       HasSubstr("s and was killed")));
  EXPECT_EQ(result["best"]["outcome"], "ok");
  EXPECT_EQ(result["best"]["plan"], "[0-14]");
  std::vector<std::string> finalists;
  for (const nlohmann::json& finalist : result["finalists"]) finalists.push_back(finalist["plan"]);
  EXPECT_GE(finalists.size(), 4U);  // the references, and some of the seven: which, the clock decides
  EXPECT_THAT(finalists, testing::Not(testing::Contains(
                             testing::AnyOf(HasSubstr("[0-4]"), HasSubstr("[4-9]"), HasSubstr("[12-14]")))));
}

// Where no candidate of some operator is valid there is no plan, and the reason is said.
TEST_F(SearchProgram, NothingValidIsAnAnswerWithAReason) {
  ASSERT_NO_FATAL_FAILURE(plant_in_gemm("broken", "  __builtin_trap();\n"));
  const cli_test::Outcome run =
      search(" --strategy exhaustive --db nothing.db --trials 30 --kernel-dir broken");
  EXPECT_EQ(run.exit_code, 1) << run.err;
  EXPECT_THAT(run.out, HasSubstr("no plan found"));
  EXPECT_THAT(run.out, HasSubstr("crashed"));
  EXPECT_THAT(run.out, HasSubstr("repeat: fusetune verify --variant"));
  EXPECT_THAT(run.out, testing::Not(HasSubstr("best plan")));
}

// Limits that allow nothing, and options of later versions.
TEST_F(SearchProgram, RefusesByName) {
  for (const char* bad : {" --trials 0", " --trials -1", " --time-limit 0", " --time-limit -2",
                          " --early-stop 0", " --strategy nonsense", " --cost-model m.json --strategy random",
                          " --epsilon -0.02", " --resume --fresh", " --finalists 0", " --trials 1x"}) {
    const cli_test::Outcome run = search(bad);
    EXPECT_EQ(run.exit_code, 2) << bad << run.err;
    std::string option(bad + 1);
    option = option.substr(0, option.find(' '));
    EXPECT_THAT(run.err, HasSubstr(option)) << bad;
  }
  EXPECT_FALSE(std::filesystem::exists(at("fusetune.db")));
}

TEST_F(SearchProgram, DatabaseCommandsRefuseAndReport) {
  EXPECT_EQ(shell("\"$FUSETUNE\" db diff").exit_code, 2);
  EXPECT_EQ(shell("\"$FUSETUNE\" db stats").exit_code, 3);  // no database here
  base::write_file_atomic(at("foreign.db"), std::string(4096, 'x'));
  EXPECT_EQ(shell("\"$FUSETUNE\" db check --db foreign.db", directory_->path()).exit_code, 3);
  const cli_test::Outcome search_foreign = search(" --db foreign.db");
  EXPECT_EQ(search_foreign.exit_code, 3);
  EXPECT_THAT(search_foreign.err, HasSubstr("not a fusetune database"));
}

TEST_F(SearchProgram, DamagedDatabaseFailsTheCheck) {
  // Too few for a plan, but there are rows.
  ASSERT_EQ(search(" --strategy exhaustive --db damaged.db --trials 2").exit_code, 1);
  const std::string whole = base::read_file(at("damaged.db"));
  base::write_file_atomic(at("damaged.db"), whole.substr(0, whole.size() / 2));
  EXPECT_EQ(shell("\"$FUSETUNE\" db check --db damaged.db", directory_->path()).exit_code, 1);
}

}  // namespace
}  // namespace fusetune::cli_test
