// `fusetune db` as a user runs it: what it prints, writes, refuses, and its exit codes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "block/problem.h"
#include "program.h"
#include "store/tuning_store.h"

namespace fusetune::cli_test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

store::PlanRecord plan(std::uint16_t mask, double us) {
  store::PlanRecord record;
  record.problem = "p 1";
  record.environment = "aa11";
  record.mask = mask;
  record.sources_hash = "s" + std::to_string(mask);
  record.cache_mode = "model";
  record.schedules = {"tile=6x16", "tile=4x8"};
  record.sampled = store::Sampled::uniform;
  record.measurement.outcome = measure::Outcome::ok;
  record.measurement.time = {us, 0.5, us, 1};
  record.measurement.samples_us = {us};
  return record;
}

class DbCommand : public testing::Test {
 protected:
  base::TemporaryDirectory directory_;

  std::string at(const std::string& name) const { return (directory_.path() / name).string(); }
  Outcome db(std::vector<std::string> words) {
    words.insert(words.begin(), "db");
    return fusetune(words, directory_.path());
  }
  /// Two plans, a segment that crashed, a run; `more`: also a plan of another environment.
  void fill(const std::string& name, bool more = false) {
    store::TuningStore store(at(name));
    store.begin_run("p 1", {"aa11", {{"isa", "avx2"}}}, "{}");
    store.record_plan(plan(0, 1234.5));
    store.record_plan(plan(1, 100.25));
    store::TuningRecord crashed;
    crashed.key = {.problem = "p 1",
                   .environment = "aa11",
                   .variant = 0,
                   .source_hash = "x",
                   .layouts = "",
                   .data = "generated",
                   .cache_mode = "model",
                   .protocol = 1};
    crashed.measurement.outcome = measure::Outcome::crashed;
    crashed.measurement.message = "signal 11";
    store.record(crashed);
    if (!more) return;
    store.begin_run("p 1", {"bb22", {}}, "{}");
    store::PlanRecord other = plan(1, 7);
    other.environment = "bb22";
    store.record_plan(other);
  }
};

TEST_F(DbCommand, ExportImportExportGivesTheSameBytes) {
  fill("fusetune.db", true);
  ASSERT_EQ(db({"export", "--jsonl=rows.jsonl"}).exit_code, 0);
  const Outcome imported = db({"import", "rows.jsonl", "--db", "second.db"});
  EXPECT_EQ(imported.exit_code, 0) << imported.err;
  EXPECT_THAT(imported.out, HasSubstr("rows.jsonl: 1 segment added; 3 plans added; 2 search runs added"));
  EXPECT_EQ(db({"export", "--db", "second.db"}).out, base::read_file(at("rows.jsonl")));
  EXPECT_EQ(db({"check", "--db", "second.db"}).exit_code, 0);

  base::write_file_atomic(at("marked.jsonl"), "\xef\xbb\xbf" + base::read_file(at("rows.jsonl")));
  const Outcome marked = db({"import", "marked.jsonl", "--db", "third.db"});
  EXPECT_EQ(marked.exit_code, 0) << "an editor's byte order mark: " << marked.err;
}

TEST_F(DbCommand, ExportOfOneTable) {
  fill("fusetune.db");
  const Outcome csv = db({"export", "--csv", "--table", "plans"});
  EXPECT_THAT(csv.out, StartsWith("problem,environment,mask,bits,plan,schedules,"));
  EXPECT_THAT(csv.out, HasSubstr("p 1,aa11,0,0000000000000000,[0-14],tile=6x16 | tile=4x8,s0,"));
  EXPECT_THAT(csv.out, HasSubstr(",1234.5,"));
  const nlohmann::json rows =
      nlohmann::json::parse(db({"export", "--json", "--table", "segments"}).out, nullptr, false);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0]["outcome"], "crashed");
  EXPECT_TRUE(rows[0]["median_us"].is_null());
  EXPECT_THAT(db({"export", "--csv", "--table", "runs"}).out, HasSubstr("running"));
  EXPECT_THAT(db({"export", "--csv", "--table", "comparisons"}).out, StartsWith("run,position,mask,"));
  const Outcome lines = db({"export", "--table", "plans"});
  EXPECT_EQ(std::count(lines.out.begin(), lines.out.end(), '\n'), 4);  // header, environment, two plans
}

TEST_F(DbCommand, StatsCountSegmentsAndPlansByOutcome) {
  fill("fusetune.db");
  store::PlanRecord crashed = plan(2, 1);
  crashed.measurement = {};
  crashed.measurement.outcome = measure::Outcome::crashed;
  store::TuningStore(at("fusetune.db")).record_plan(crashed);
  const Outcome stats = db({"stats", "--csv"});
  EXPECT_EQ(stats.exit_code, 0) << stats.err;
  EXPECT_THAT(stats.out, HasSubstr("\nsegments crashed,1\nplans crashed,1\nplans ok,2\ncomparisons"));
}

TEST_F(DbCommand, NotesFormatIsBitsAndMilliseconds) {
  fill("fusetune.db");
  EXPECT_EQ(db({"export", "--format", "notes"}).out,
            "# 16 bits of a plan, its median time in milliseconds\n# problem: p 1\n# environment: aa11\n"
            "# cache mode: model\n0000000000000000 1.2345\n0000000000000001 0.10025\n");
}

TEST_F(DbCommand, NotesFormatHoldsTimesOfOneUnit) {
  fill("fusetune.db");
  {
    store::TuningStore store(at("fusetune.db"));
    store::PlanRecord other = plan(1, 0.5);  // faster only because its unit is another
    other.settings = "samples=24 min_time=0.001 reference=b";
    other.measurement.reference_us = 7;
    other.measurement.slowdown = 1;
    store.record_plan(other);
  }
  const Outcome notes = db({"export", "--format", "notes"});
  EXPECT_THAT(notes.out, testing::EndsWith("\n0000000000000000 1.2345\n0000000000000001 0.10025\n"));
  EXPECT_THAT(notes.err, HasSubstr("1 in other units (1 of data generated, samples=24"));
}

TEST_F(DbCommand, NotesFormatNeedsOnePlaceAndListsThem) {
  fill("fusetune.db", true);
  const Outcome both = db({"export", "--format", "notes"});
  EXPECT_EQ(both.exit_code, 2);
  EXPECT_EQ(both.out, "");
  EXPECT_THAT(both.err, HasSubstr("--problem 'p 1' --environment aa11 --cache model"));
  EXPECT_THAT(both.err, HasSubstr("--problem 'p 1' --environment bb22 --cache model"));
  EXPECT_THAT(db({"export", "--format", "notes", "--environment", "bb"}).out,
              HasSubstr("\n0000000000000001 0.007\n"));
  const Outcome none = db({"export", "--format", "notes", "--problem", "other"});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.err, HasSubstr("no plan with a time"));
}

TEST_F(DbCommand, BadImportLeavesEverythingAsItWas) {
  fill("fusetune.db");
  const std::string before = db({"export"}).out;
  fill("other.db", true);
  std::string text = db({"export", "--db", "other.db"}).out;
  text.insert(text.rfind("\"median_us\":") + 12, "-");
  base::write_file_atomic(at("bad.jsonl"), text);
  const Outcome bad = db({"import", "bad.jsonl"});
  EXPECT_EQ(bad.exit_code, 2);
  EXPECT_THAT(bad.err, HasSubstr("bad.jsonl:9: `median_us`"));
  EXPECT_EQ(db({"export"}).out, before);
  base::write_file_atomic(at("foreign.txt"), "hello\n");
  EXPECT_THAT(db({"import", "foreign.txt"}).err, HasSubstr("foreign.txt:1: "));
  EXPECT_EQ(db({"import", "missing.jsonl"}).exit_code, 3);
  EXPECT_EQ(db({"import"}).exit_code, 2);
}

TEST_F(DbCommand, ImportsTheNotesFormat) {
  const std::string problem = block::Problem{}.key();
  base::write_file_atomic(at("notes.txt"),
                          "# from elsewhere\n0000000000000000 2.5\n0000000000000001\t1.25\r\n"
                          "0000000000000000 2\n0000000000000011 nan\n");
  const std::vector<std::string> words = {"import", "notes.txt",     "--problem",
                                          problem,  "--environment", "notes"};
  const Outcome imported = db(words);
  EXPECT_EQ(imported.exit_code, 0) << imported.err;
  EXPECT_THAT(imported.out, HasSubstr("2 plans added"));
  EXPECT_THAT(imported.err, HasSubstr("the fastest counts"));
  EXPECT_THAT(db({"export", "--format", "notes"}).out,
              HasSubstr("\n0000000000000000 2\n0000000000000001 1.25\n"));
  EXPECT_THAT(db({"export", "--table", "plans"}).out, HasSubstr("\"uniform\""));
  EXPECT_EQ(db({"check"}).exit_code, 0);
  // Again: nothing new. Without saying what they are, or as if they had been measured here: refused.
  EXPECT_THAT(db(words).out, HasSubstr("0 plans added"));
  EXPECT_THAT(db({"import", "notes.txt"}).err, HasSubstr("--problem KEY"));
  EXPECT_EQ(db({"import", "notes.txt", "--problem", "nonsense", "--environment", "notes"}).exit_code, 2);
  fill("measured.db");
  const Outcome mixed =
      db({"import", "notes.txt", "--db", "measured.db", "--problem", problem, "--environment", "aa11"});
  EXPECT_EQ(mixed.exit_code, 2);
  EXPECT_THAT(mixed.err, HasSubstr("choose another name"));
  ASSERT_EQ(db({"export", "--jsonl=rows.jsonl"}).exit_code, 0);
  EXPECT_EQ(db({"import", "rows.jsonl", "--environment", "x"}).exit_code, 2);
  base::write_file_atomic(at("bad.txt"), "0000000000000000 2\n000000000000000 2\n");
  EXPECT_THAT(db({"import", "bad.txt", "--problem", problem, "--environment", "notes"}).err,
              HasSubstr("bad.txt:2"));
}

TEST_F(DbCommand, MergeTakesRowsOfOthersAndLeavesThemAlone) {
  fill("fusetune.db");
  fill("other.db", true);
  const std::string before = base::read_file(at("other.db"));
  const Outcome merged = db({"merge", "other.db"});
  EXPECT_EQ(merged.exit_code, 0) << merged.err;
  EXPECT_THAT(merged.out, HasSubstr("1 plan added"));
  EXPECT_EQ(base::read_file(at("other.db")), before);
  EXPECT_THAT(db({"export", "--csv", "--table", "plans"}).out, HasSubstr("bb22"));
  EXPECT_THAT(db({"merge", "other.db"}).out, HasSubstr("0 plans added"));
}

TEST_F(DbCommand, MergeRefusesBeforeItTakesAnything) {
  fill("fusetune.db");
  fill("other.db", true);
  const std::string before = db({"export"}).out;
  base::write_file_atomic(at("foreign.db"), std::string(5000, 'x'));
  const std::string whole = base::read_file(at("other.db"));
  base::write_file_atomic(at("cut.db"), whole.substr(0, whole.size() / 2));
  const Outcome foreign = db({"merge", "other.db", "foreign.db"});
  EXPECT_EQ(foreign.exit_code, 3);
  EXPECT_THAT(foreign.err, HasSubstr("foreign.db: this is not a fusetune database"));
  const Outcome cut = db({"merge", "other.db", "cut.db"});
  EXPECT_EQ(cut.exit_code, 3);
  EXPECT_THAT(cut.err, HasSubstr("truncated"));
  EXPECT_EQ(db({"merge", "none.db"}).exit_code, 3);
  const Outcome itself = db({"merge", "./fusetune.db"});
  EXPECT_EQ(itself.exit_code, 2);
  EXPECT_THAT(itself.err, HasSubstr("is the database itself"));
  EXPECT_EQ(db({"merge"}).exit_code, 2);
  EXPECT_EQ(db({"export"}).out, before);
}

TEST_F(DbCommand, PruneSaysFirstThenRemoves) {
  fill("fusetune.db");
  const Outcome without = db({"prune"});
  EXPECT_EQ(without.exit_code, 2);
  EXPECT_THAT(without.err, HasSubstr("say what to remove"));
  const Outcome dry = db({"prune", "--outcome", "failed", "--dry-run", "--csv"});
  EXPECT_EQ(dry.exit_code, 0);
  EXPECT_THAT(dry.out, HasSubstr("segments,1\nplans,0\n"));
  EXPECT_THAT(db({"stats"}).out, HasSubstr("segments crashed"));
  EXPECT_THAT(db({"prune", "--outcome", "crashed"}).out, HasSubstr("removed"));
  EXPECT_THAT(db({"stats"}).out, testing::Not(HasSubstr("segments crashed")));
  const Outcome unknown = db({"prune", "--outcome", "fine"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("fine"));
  EXPECT_EQ(db({"prune", "--protocol-before", "0"}).exit_code, 2);
}

/// A database of the segments and plans given, all of one environment.
void make(const std::string& file, const std::string& environment,
          const std::vector<store::TuningRecord>& segments, const std::vector<store::PlanRecord>& plans) {
  store::TuningStore store(file);
  store.begin_run("p 1", {environment, {}}, "{}");
  for (store::TuningRecord segment : segments) {
    segment.key.environment = environment;
    store.record(segment);
  }
  for (store::PlanRecord record : plans) {
    record.environment = environment;
    store.record_plan(record);
  }
}

store::TuningRecord segment(int variant, const std::string& source, double us, double mad_us = 0.01) {
  store::TuningRecord record;
  record.key.problem = "p 1";
  record.key.variant = variant;
  record.key.source_hash = source;
  record.key.layouts = "l";
  record.key.cache_mode = "model";
  record.schedule = "tile=6x16";
  record.measurement.outcome = measure::Outcome::ok;
  record.measurement.time = {us, mad_us, us, 12};
  return record;
}

store::TuningRecord crashed(store::TuningRecord record) {
  record.measurement = {};
  record.measurement.outcome = measure::Outcome::crashed;
  return record;
}

TEST_F(DbCommand, DiffOfTwoMachines) {
  make(at("a.db"), "aa11",
       {segment(0, "s0", 100), segment(1, "s1", 100), segment(2, "s2", 100, 20), segment(3, "s3", 100),
        segment(4, "s4", 100), segment(5, "s5", 100)},
       {plan(0, 100)});
  make(at("b.db"), "bb22",
       {segment(0, "s0", 50), segment(1, "s1", 100.4), segment(2, "s2", 110, 20), segment(3, "new", 102),
        crashed(segment(4, "s4", 0)), segment(6, "s6", 100)},
       {plan(1, 100)});
  const std::string before = base::read_file(at("a.db"));
  const Outcome run = db({"diff", "a.db", "b.db", "--table", "segments", "--csv"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(base::read_file(at("a.db")), before);
  const nlohmann::json rows = nlohmann::json::parse(
      db({"diff", "a.db", "b.db", "--table", "segments", "--json"}).out, nullptr, false);
  ASSERT_EQ(rows.size(), 7u);
  // What has no ratio first, then by |log ratio|: 1/2, 1.1, 1.02, 1.004; then those of one side.
  std::vector<std::string> verdicts, alike;
  for (const nlohmann::json& row : rows) {
    verdicts.push_back(row["verdict"]);
    alike.push_back(row["alike"].is_null() ? "" : row["alike"]);
  }
  EXPECT_THAT(verdicts,
              testing::ElementsAre("changed", "faster", "same", "slower", "same", "only in A", "only in B"))
      << "1.1 is within its noise, 1.004 within half a percent";
  EXPECT_THAT(alike, testing::ElementsAre("kernels", "kernels", "kernels", "schedules", "kernels", "", ""));
  EXPECT_EQ(rows[1]["ratio"], 0.5);
  EXPECT_EQ(rows[1]["environment_a"], "aa11");
  EXPECT_EQ(rows[1]["environment_b"], "bb22");
  EXPECT_EQ(rows[0]["outcome_b"], "crashed");
  EXPECT_TRUE(rows[0]["ratio"].is_null());
  const Outcome text = db({"diff", "a.db", "b.db"});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_EQ(text.err, "");
  EXPECT_THAT(text.out,
              HasSubstr("segments: 5 in both, 1 only in A, 1 only in B; 1 changed outcome\n  time B/A: "
                        "median 1.0120 of 4; 1 faster, 1 slower by more than 0.5 % and noise\n"));
  EXPECT_THAT(text.out, HasSubstr("plans: 0 in both, 1 only in A, 1 only in B\n"));
  EXPECT_THAT(text.out, HasSubstr("environment B: bb22\n"));
}

TEST_F(DbCommand, DiffOfEnvironments) {
  make(at("a.db"), "aa11", {segment(0, "s0", 100)}, {});
  make(at("a.db"), "bb22", {segment(0, "s0", 200)}, {});
  const Outcome same = db({"diff", "a.db", "a.db", "--table", "segments", "--csv"});
  EXPECT_EQ(same.err, "");
  EXPECT_EQ(std::count(same.out.begin(), same.out.end(), '\n'), 3);
  EXPECT_THAT(same.out, testing::Not(HasSubstr("only in")));
  const Outcome two = db({"diff", "a.db", "a.db", "--environment", "aa", "--with-environment", "bb"});
  EXPECT_EQ(two.exit_code, 0) << two.err;
  EXPECT_THAT(two.out, HasSubstr("median 2.0000 of 1; 0 faster, 1 slower"));
  make(at("c.db"), "cc33", {segment(0, "s0", 100)}, {});
  const Outcome other = db({"diff", "a.db", "c.db"});
  EXPECT_EQ(other.exit_code, 0);
  EXPECT_THAT(other.out, HasSubstr("segments: 0 in both, 2 only in A, 1 only in B"));
  EXPECT_THAT(other.err, HasSubstr("aa11 bb22 in A, cc33 in B"));
}

TEST_F(DbCommand, DiffSaysWhyNothingIsInBoth) {
  store::TuningRecord newer = segment(0, "s0", 100);
  newer.key.protocol = 2;
  make(at("a.db"), "aa11", {segment(0, "s0", 100)}, {plan(0, 1)});
  make(at("b.db"), "aa11", {newer}, {plan(0, 1)});
  const Outcome run = db({"diff", "a.db", "b.db"});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_THAT(run.err, HasSubstr("no segments in common: protocol: 1 in A, 2 in B"));
  EXPECT_THAT(run.out, HasSubstr("plans: 1 in both"));
  EXPECT_EQ(db({"diff", "a.db", "none.db"}).exit_code, 3);
}

// Searches choose schedules anew: a plan's newest time on each side says how the plan fares.
TEST_F(DbCommand, DiffOfPlansWithOtherSchedules) {
  store::PlanRecord other = plan(0, 2469);
  other.sources_hash = "other";
  other.schedules = {"tile=4x32"};
  make(at("a.db"), "aa11", {}, {plan(0, 1234.5), plan(1, 5)});
  make(at("b.db"), "aa11", {}, {other, plan(1, 5)});
  const Outcome run = db({"diff", "a.db", "b.db", "--table", "plans", "--csv"});
  EXPECT_THAT(run.out, HasSubstr("mask 0,plan,ok,ok,1234.5,2469,2,"));
  EXPECT_THAT(run.out, HasSubstr("mask 1,kernels,ok,ok,5,5,1,"));
}

TEST_F(DbCommand, OptionsOfOtherActionsAreRefusedByName) {
  fill("fusetune.db");
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"stats", "--dry-run"}, "--dry-run means nothing to db stats"},
      {{"merge", "x.db", "--outcome", "ok"}, "--outcome means nothing to db merge"},
      {{"export", "x.db"}, "takes no file"},
      {{"export", "--csv"}, "--table"},
      {{"export", "--csv", "--jsonl", "--table", "plans"}, "choose one"},
      {{"export", "--table", "comparisons"}, "leave --table out"},
      {{"export", "--format", "notes", "--table", "runs"}, "--format notes"},
      {{"exprot"}, "did you mean `export`?"},
      {{"diff"}, "name two databases"},
      {{"diff", "fusetune.db"}, "name two databases"},
      {{"diff", "fusetune.db", "fusetune.db", "--csv"}, "--table"},
      {{"diff", "fusetune.db", "fusetune.db", "--table", "runs"}, "not --table runs"},
      {{"diff", "a.db", "b.db", "--db", "c.db"}, "--db means nothing"},
      {{"stats", "--with-environment", "a"}, "--with-environment means nothing to db stats"},
  };
  for (const auto& [words, says] : cases) {
    const Outcome run = db(words);
    EXPECT_EQ(run.exit_code, 2) << says;
    EXPECT_THAT(run.err, HasSubstr(says));
  }
}

TEST_F(DbCommand, ReadOnlyDirectoryIsNoObstacleToLooking) {
  if (geteuid() != 0) GTEST_SKIP() << "needs a user whose rights it can give up";
  fill("fusetune.db");
  const Outcome run = shell(
      "chmod 555 . && setpriv --reuid=65534 --regid=65534 --clear-groups true || exit 77\n"
      "as() { setpriv --reuid=65534 --regid=65534 --clear-groups \"$FUSETUNE\" \"$@\"; }\n"
      "as db check && as db export --table plans --csv && as db prune --older-than 1; echo prune $?\n"
      "chmod 755 .",
      directory_.path());
  if (run.exit_code == 77) GTEST_SKIP() << "cannot run as another user";
  EXPECT_THAT(run.out, HasSubstr("fusetune.db: sound"));
  EXPECT_THAT(run.out, HasSubstr(",1234.5,"));
  EXPECT_THAT(run.err, HasSubstr("looking at a copy"));
  EXPECT_THAT(run.out, HasSubstr("prune 3"));
}

}  // namespace
}  // namespace fusetune::cli_test
