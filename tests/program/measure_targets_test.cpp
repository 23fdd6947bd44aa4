// tools/measure_targets: what its parts call and print. `exact` runs for real, the parts that measure time
// run a stand-in.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "../cli/program.h"
#include "base/file.h"

namespace fusetune {
namespace {

using cli_test::Outcome;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

Outcome measure(const std::string& program, const std::string& parts, const std::filesystem::path& folder) {
  return cli_test::shell(
      "export FUSETUNE_PROGRAM='" + program + "'; '" FUSETUNE_SOURCE_DIR "/tools/measure_targets' " + parts,
      folder);
}

TEST(MeasureTargets, OfEveryRecordingTheShortestPathIsTheBestOfAllPlans) {
  const base::TemporaryDirectory folder;
  const Outcome run = measure(FUSETUNE_PROGRAM, "exact", folder.path());
  ASSERT_EQ(run.exit_code, 0) << run.err;
  std::size_t lines = 0;
  for (std::size_t at = run.out.find(".jsonl.gz: "); at != std::string::npos;
       at = run.out.find(".jsonl.gz: ", at + 1)) {
    const std::string line = run.out.substr(at, run.out.find('\n', at) - at);
    EXPECT_THAT(line, HasSubstr("through all 17408 plans, same times: 1.000000"));
    ++lines;
  }
  EXPECT_GE(lines, 10u) << run.out;
}

TEST(MeasureTargets, TimesWholeCommands) {
  const base::TemporaryDirectory folder;
  const std::string program = (folder.path() / "program").string();
  base::write_file_atomic(program, "#!/bin/sh\necho \"$@\" >>'" + program + ".calls'\n");
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  const Outcome run = measure(program, "model searches", folder.path());
  ASSERT_EQ(run.exit_code, 0) << run.err;
  for (const char* line : {"train on 20,000 rows: 0.", "predict of all 17,408 plans: 0.",
                           "search, nothing compiled, nothing measured: 0.", "the same search again: 0.",
                           "search, kernels compiled, their times known: 0."})
    EXPECT_THAT(run.out, HasSubstr(line));
  EXPECT_THAT(run.out, Not(HasSubstr("== exact")));
  EXPECT_THAT(
      base::read_file(program + ".calls"),
      AllOf(HasSubstr("predict --all --cost-model shipped --preset minilm-l6 --batch 1 --seq 64 --csv"),
            HasSubstr("search --preset bert-base --batch 1 --seq 128 --db")));
}

TEST(MeasureTargets, SetsTheFastestOfAllPlansBesideGuided) {
  const base::TemporaryDirectory folder;
  const std::string program = (folder.path() / "program").string();
  base::write_file_atomic(program, "#!/bin/sh\necho \"$@\" >>'" + program + R"sh(.calls'
plan() { echo "{\"kind\":\"plan\",\"mask\":$1,\"sampled\":\"$2\",\"outcome\":\"ok\",\"median_us\":$3,\"x\":1}"; }
case "$*" in
  *"guided.db --table plans"*) echo '{"kind":"plan","mask":7,"x":1,"repeat_command":"fusetune bench 7 --schedule-text '"'[0-14]: k=384'"' --batch 1","run":1}' ;;
  *"--table plans"*) plan 5 uniform 101.5; plan 9 uniform 99; plan 7 uniform 98; plan 3 finalist 90 ;;
  *"--table runs"*) echo '{"run":1,"started":100,"finished":130,'; echo '{"run":2,"started":200,"finished":212,' ;;
  *--json*) echo '  "took": {' ; echo '    "measure_s": 7.25,' ;;
  search*) echo 'best plan  mask 7  [0-14]  1 kernel'; echo 'predicted 9 s (compile 0 s, device 9 s), took 8 s (compile 1 s, device 7 s)' ;;
  bench*) printf '%s\n' mask,plan 7,a,ok,1,1,1,1,1,1 9,b,ok,1,1,1,0.98,0.97,0.99 5,c,ok,1,1,1,1.02,1,1.04 ;;
esac
)sh");
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  const Outcome run = measure(program, "best sampled", folder.path());
  ASSERT_EQ(run.exit_code, 0) << run.err;
  for (const char* line :
       {"all plans: 3 timed in 42 s", "minilm-l6 --batch 2 --seq 64 --mask causal",
        "measuring: all kernels 7 s, 2,000 plans drawn uniformly 7 s, all 17,408 would take 70 s",
        "best plan  mask 7", "predicted 9 s (compile 0 s, device 9 s), took 8 s",
        "the fastest of them: mask 9, 0.98 times guided's (95 % 0.97 to 0.99", "1 of 2 are faster for sure"})
    EXPECT_THAT(run.out, HasSubstr(line));
  EXPECT_THAT(base::read_file(program + ".calls"),
              HasSubstr("bench 7 9 5 --pairs 40 --schedule-text [0-14]: k=384"));
}

TEST(MeasureTargets, RefusesAPartThatThereIsNot) {
  const base::TemporaryDirectory folder;
  const Outcome run = measure(FUSETUNE_PROGRAM, "exat", folder.path());
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("there is no part 'exat'"));
}

}  // namespace
}  // namespace fusetune
