// Rows that leave a store and rows that come in: JSON lines, other stores, plan times; and rows removed.
#include "store/contents.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <limits>

#include "base/text.h"
#include "store/json_lines.h"
#include "store_fixture.h"

namespace fusetune::store {
namespace {

using measure::Outcome;
using testing::HasSubstr;

class ContentsTest : public StoreTest {
 protected:
  std::filesystem::path other_ = directory_.path() / "other.db";

  /// A store with rows of every kind: two environments, a run that ended and one that runs, failures, text
  /// that is no UTF-8, finalists without an interval.
  TuningStore filled() {
    TuningStore store = opened();
    store.begin_run("another problem", environment("env-b"), R"({"pairs": 3})");
    TuningRecord segment = record_of(3, "abc", 1.0 / 3);
    segment.run = run_;
    segment.limits = {120, 60};
    store.record(segment);
    store.record(failed(record_of(4, "crash"), Outcome::crashed, "signal \xff 11\nsecond line"));
    PlanRecord plan = plan_of(2, Sampled::uniform);
    plan.typed_mask = 65535;
    store.record_plan(plan);
    PlanRecord elsewhere = plan_of(5);
    elsewhere.problem = "another problem";
    elsewhere.environment = "env-b";
    elsewhere.cache_mode = "cold";
    store.record_plan(elsewhere);
    std::vector<ComparisonRecord> finalists(3);
    finalists[0].plan = plan_of(7);
    finalists[1].plan = plan_of(2);
    finalists[1].ratio = 1.02;
    finalists[1].low = 1.01;
    finalists[1].high = std::numeric_limits<double>::infinity();
    finalists[1].pairs = 3;
    finalists[1].whole_over_sum = {0.98, 0.97, 0.99};
    finalists[2].plan = failed(plan_of(9), Outcome::wrong_result, "differs");
    store.record_finalists(run_, finalists);
    store.finish_run(run_, RunState::finished, R"({"best": 1})", "inputs");
    store.claim(record_of(9, "claimed"), ClaimPolicy::retry);
    store.claim_plan(plan_of(11), ClaimPolicy::retry);
    return store;
  }
};

std::string exported(const TuningStore& store, const Selection& selection = {}) {
  return to_json_lines(store.contents(selection));
}

Contents parsed(const std::string& text, int* duplicates = nullptr) {
  int ignored = 0;
  return parse_json_lines(text, "rows.jsonl", duplicates != nullptr ? *duplicates : ignored);
}

TEST_F(ContentsTest, ExportImportExportGivesTheSameBytes) {
  const std::string first = exported(filled());
  TuningStore other(other_);
  const Absorbed absorbed = other.absorb(parsed(first));
  EXPECT_EQ(absorbed.segments.added, 2);
  EXPECT_EQ(absorbed.plans.added, 4);
  EXPECT_EQ(absorbed.runs.added, 2);
  EXPECT_EQ(absorbed.comparisons, 3);
  EXPECT_EQ(exported(other), first);
  EXPECT_TRUE(other.check().empty());
  // What was read is used: the finalists are found, measured candidates are answers.
  ASSERT_TRUE(other.find_finalists("inputs"));
  EXPECT_EQ(other.find_finalists("inputs")->at(1).high, std::numeric_limits<double>::infinity());
  EXPECT_EQ(other.find_finalists("inputs")->at(0).plan.measurement.device_uuid, "GPU-1");
  EXPECT_EQ(other.find(record_of(3, "abc").key)->measurement.time.median_us, 1.0 / 3);
  EXPECT_EQ(other.find(record_of(3, "abc").key)->measurement.device_uuid, "GPU-1");
  EXPECT_EQ(other.find_plan(plan_of(2).key())->typed_mask, 65535);
  EXPECT_EQ(other.find_plan(plan_of(2).key())->sampled, Sampled::uniform);
  EXPECT_FALSE(other.find(record_of(9, "claimed").key));
}

TEST_F(ContentsTest, ImportingTwiceChangesNothing) {
  const std::string first = exported(filled());
  TuningStore other(other_);
  other.absorb(parsed(first));
  const Absorbed again = other.absorb(parsed(first));
  EXPECT_EQ(again.segments.added + again.plans.added + again.runs.added + again.comparisons, 0);
  EXPECT_EQ(again.segments.kept, 2);
  EXPECT_EQ(exported(other), first);
}

TEST_F(ContentsTest, SelectionTakesOneProblemEnvironmentOrCacheMode) {
  const TuningStore store = filled();
  EXPECT_EQ(store.contents({.problem = "another problem"}).plans.size(), 1u);
  EXPECT_EQ(store.contents({.problem = "another problem"}).environments.size(), 1u);
  EXPECT_EQ(store.contents({.environment = "env-b"}).segments.size(), 0u);
  EXPECT_EQ(store.contents({.environment = "env-"}).plans.size(), 4u);
  EXPECT_EQ(store.contents({.cache_mode = "cold"}).plans.size(), 1u);
  EXPECT_EQ(store.contents({.environment = "nv-a"}).plans.size(), 0u);  // only how it begins
}

/// One good line of each kind; `damage` replaces a part of it.
TEST_F(ContentsTest, BadLinesAreNamed) {
  const std::string good = exported(filled());
  ASSERT_NO_THROW(parsed(good));
  struct Case {
    const char *from, *to, *says;
  };
  for (const Case& bad : {
           Case{"\"median_us\":100.0", "\"median_us\":NaN", "not a line of JSON"},
           Case{"\"median_us\":100.0", "\"median_us\":1e999", "not a line of JSON"},
           Case{"\"median_us\":100.0", "\"median_us\":-100.0", "`median_us`"},
           Case{"\"median_us\":100.0", "\"median_us\":0", "`median_us`"},
           Case{"\"median_us\":100.0", "\"median_us\":\"100\"", "`median_us`"},
           Case{"\"median_us\":100.0", "\"other\":100.0", "`median_us` is missing"},
           Case{"\"samples_us\":[", "\"samples_us\":[-1,", "`samples_us`"},
           Case{"\"samples_us\":[", "\"samples_us\":[1,", "`samples_us`"},
           Case{"\"variant\":3", "\"variant\":147", "`variant`"},
           Case{"\"variant\":3", "\"variant\":3.5", "`variant`"},
           Case{"\"outcome\":\"crashed\"", "\"outcome\":\"fine\"", "fine"},
           Case{"\"sampled\":\"uniform\"", "\"sampled\":\"somehow\"", "somehow"},
           Case{"\"cache_mode\":\"cold\"", "\"cache_mode\":\"hot\"", "hot"},
           Case{"\"environment\":\"env-b\"", "\"environment\":\"env-c\"", "`environment`"},
           Case{"\"kind\":\"plan\"", "\"kind\":\"plans\"", "`kind`"},
           Case{"\"kind\":\"fusetune records\"", "\"kind\":\"records\"", "`kind`"},
           Case{"\"version\":1", "\"version\":2", "newer"},
           Case{"\"run\":1,\"plan\"", "\"run\":17,\"plan\"", "`run`"},
           Case{"\"sources_hash\":\"sources9\"", "\"sources_hash\":\"\"", "`sources_hash`"},
           Case{"\"protocol\":1", "\"protocol\":0", "`protocol`"},
           Case{"\"pairs\":3", "\"pairs\":-3", "`pairs`"},
           Case{"\"low\":1.01", "\"low\":1.03", "`low`"},
           Case{"\"state\":\"finished\"", "\"state\":\"running\"", "`state`"},
           Case{"{\"kind\":\"segment\"", "{\"kind\":\"segment\",,", "not a line of JSON"},
       }) {
    std::string text = good;
    const std::size_t at = text.find(bad.from);
    ASSERT_NE(at, std::string::npos) << bad.from;
    text.replace(at, std::string_view(bad.from).size(), bad.to);
    const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
    try {
      parsed(text);
      ADD_FAILURE() << bad.to << " was accepted";
    } catch (const base::UsageError& error) {
      EXPECT_THAT(error.what(), HasSubstr("rows.jsonl:" + std::to_string(line) + ": ")) << bad.to;
      EXPECT_THAT(error.what(), HasSubstr(bad.says)) << bad.to;
    }
  }
}

// Far deeper than a stack could follow.
TEST_F(ContentsTest, DeepNestingIsRefusedByItsLine) {
  const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  try {
    parsed("{\"kind\": " + deep + "}\n");
    ADD_FAILURE() << "it was accepted";
  } catch (const base::UsageError& error) {
    EXPECT_STREQ(error.what(), "rows.jsonl:1: `kind`: expected a text, not an array");
  }
}

TEST_F(ContentsTest, ATruncatedFileIsRefused) {
  const std::string good = exported(filled());
  EXPECT_THROW(parsed(good.substr(0, good.size() - 20)), base::UsageError);
}

TEST_F(ContentsTest, OfTwoLinesOfOneCandidateTheFasterCounts) {
  TuningStore store = opened();
  store.record(record_of(1, "twice", 20));
  std::string text = exported(store);
  store.record(record_of(1, "twice", 10));
  const std::string second = exported(store);
  const std::string faster = second.substr(second.find("{\"kind\":\"segment\""));
  const std::string slower = text.substr(text.find("{\"kind\":\"segment\""));
  for (const std::string& lines : {text + faster, second + slower}) {
    int duplicates = 0;
    const Contents contents = parsed(lines, &duplicates);
    EXPECT_EQ(duplicates, 1);
    ASSERT_EQ(contents.segments.size(), 1u);
    EXPECT_EQ(contents.segments[0].measurement.time.median_us, 10);
  }
}

TEST_F(ContentsTest, MergeKeepsTheOneWithATimeElseTheNewer) {
  TuningStore store = opened();
  TuningStore other(other_);
  other.begin_run(kProblem, environment(), "{}");
  const auto at = [](TuningRecord record, std::int64_t created) {
    record.created = created;
    return record;
  };
  const auto crash = [](const char* hash) { return failed(record_of(1, hash), Outcome::crashed, ""); };
  store.record(at(record_of(1, "timed here"), 100));
  other.record(at(crash("timed here"), 200));
  store.record(at(crash("timed there"), 200));
  other.record(at(record_of(1, "timed there"), 100));
  store.record(at(record_of(1, "newer here", 10), 200));
  other.record(at(record_of(1, "newer here", 20), 100));
  store.record(at(record_of(1, "newer there", 10), 100));
  other.record(at(record_of(1, "newer there", 20), 200));
  other.record(at(record_of(1, "only there", 30), 200));
  const Absorbed absorbed = store.absorb(other.contents());
  EXPECT_EQ(absorbed.segments.added, 1);
  EXPECT_EQ(absorbed.segments.replaced, 2);
  EXPECT_EQ(absorbed.segments.kept, 2);
  const auto time = [&](const char* hash) {
    return store.find(record_of(1, hash).key)->measurement.time.median_us;
  };
  EXPECT_EQ(time("timed here"), 12.5);
  EXPECT_EQ(time("timed there"), 12.5);
  EXPECT_EQ(time("newer here"), 10);
  EXPECT_EQ(time("newer there"), 20);
  EXPECT_EQ(time("only there"), 30);
}

TEST_F(ContentsTest, MergeKeepsThatAPlanWasDrawn) {
  TuningStore store = opened();
  TuningStore other(other_);
  other.begin_run(kProblem, environment(), "{}");
  PlanRecord drawn = plan_of(1, Sampled::uniform, 50);
  drawn.created = 100;
  other.record_plan(drawn);
  store.record_plan(plan_of(1, Sampled::guided, 60));  // newer
  store.absorb(other.contents());
  EXPECT_EQ(store.find_plan(drawn.key())->measurement.time.median_us, 60);
  EXPECT_EQ(store.find_plan(drawn.key())->sampled, Sampled::uniform);
}

/// A process that claims a segment and a plan and then only lives.
class Claimant {
 public:
  explicit Claimant(const std::filesystem::path& file) {
    int ends[2];
    if (pipe(ends) != 0) throw base::InternalError("pipe");
    pid_ = fork();
    if (pid_ == 0) {
      TuningStore store(file);
      store.claim(record_of(1, "held"), ClaimPolicy::fresh);
      store.claim_plan(plan_of(1), ClaimPolicy::fresh);
      if (write(ends[1], "r", 1) != 1) _exit(1);
      while (true) pause();
    }
    char byte;
    close(ends[1]);
    if (read(ends[0], &byte, 1) != 1) throw base::InternalError("the claimant died");
    close(ends[0]);
  }
  ~Claimant() { kill_it(); }
  void kill_it() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  pid_t pid_ = 0;
};

TEST_F(ContentsTest, WhatALivingProcessMeasuresIsLeftAlone) {
  opened();
  Claimant claimant(file_);
  TuningStore store(file_);
  TuningStore other(other_);
  other.begin_run(kProblem, environment(), "{}");
  other.record(record_of(1, "held"));
  other.record_plan(plan_of(1));
  const Absorbed absorbed = store.absorb(other.contents());
  EXPECT_EQ(absorbed.segments.held, 1);
  EXPECT_EQ(absorbed.plans.held, 1);
  EXPECT_EQ(store.claim(record_of(1, "held"), ClaimPolicy::retry).state, ClaimState::held);
  EXPECT_EQ(store.claim_plan(plan_of(1), ClaimPolicy::retry).state, ClaimState::held);

  const Pruned pruned = store.prune({.rows = {.problem = kProblem}}, false);
  EXPECT_EQ(pruned.segments + pruned.plans, 0);
  EXPECT_GE(pruned.held, 2);
  EXPECT_EQ(store.claim(record_of(1, "held"), ClaimPolicy::retry).state, ClaimState::held);
  claimant.kill_it();
  EXPECT_EQ(store.prune({.rows = {.problem = kProblem}}, false).segments, 1);
}

TEST_F(ContentsTest, PruneRemovesWhatMeetsEverythingGiven) {
  TuningStore store = filled();
  EXPECT_EQ(store.prune({.rows = {.environment = "env-b"}, .outcomes = {Outcome::crashed}}, false).segments,
            0);
  const Pruned dry = store.prune({.outcomes = {Outcome::crashed, Outcome::timeout}}, true);
  EXPECT_EQ(dry.segments, 1);
  EXPECT_TRUE(store.find(record_of(4, "crash").key));  // only counted
  EXPECT_EQ(store.prune({.outcomes = {Outcome::crashed}}, false).segments, 1);
  EXPECT_FALSE(store.find(record_of(4, "crash").key));
  EXPECT_TRUE(store.find(record_of(3, "abc").key));

  // A plan of a comparison goes: with it the comparison, and the search is not an answer any more.
  const Pruned plan = store.prune({.outcomes = {Outcome::wrong_result}}, false);
  EXPECT_EQ(plan.plans, 1);
  EXPECT_EQ(plan.comparisons, 3);
  EXPECT_EQ(plan.runs, 0);
  EXPECT_FALSE(store.find_finalists("inputs"));
  EXPECT_TRUE(store.check().empty());

  const Pruned rest = store.prune({.rows = {.problem = kProblem}}, false);
  EXPECT_EQ(rest.runs, 1);
  EXPECT_EQ(rest.problems, 0);  // this process's claims need it
  EXPECT_TRUE(store.check().empty());
  EXPECT_EQ(store.contents({.problem = kProblem}).plans.size(), 0u);
  EXPECT_EQ(store.contents({.problem = "another problem"}).plans.size(), 1u);
}

TEST_F(ContentsTest, PruneByAgeAndProtocol) {
  TuningStore store = opened();
  TuningRecord old = record_of(1, "old");
  old.created = 1000;
  store.record(old);
  TuningRecord newer = record_of(1, "newer");
  newer.key.protocol = 2;
  store.record(newer);
  EXPECT_EQ(store.prune({.before = 1000}, false).segments, 0);
  EXPECT_EQ(store.prune({.before = 1001}, true).segments, 1);
  EXPECT_EQ(store.prune({.protocol_before = 2}, false).segments, 1);
  EXPECT_FALSE(store.find(old.key));
  EXPECT_TRUE(store.find(newer.key));
  EXPECT_THROW(store.prune({}, false), base::InternalError);
}

TEST_F(ContentsTest, PlanTimesBecomeUniformRowsOfALabel) {
  const std::uint16_t mask = plan_of(40).mask;
  const std::vector<std::pair<std::uint16_t, double>> times = {{mask, 54.524}, {mask, 54.1}, {mask, 60}};
  int duplicates = 0;
  const Contents contents = contents_of_plan_times(kProblem, "their machine", "model", times, duplicates);
  EXPECT_EQ(duplicates, 2);
  TuningStore store(file_);
  EXPECT_EQ(store.absorb(contents).plans.added, 1);
  const std::vector<PlanRecord> plans = store.plan_records(kProblem, "their machine", "model");
  ASSERT_EQ(plans.size(), 1u);
  EXPECT_EQ(plans[0].measurement.time.median_us, 54.1 * 1e3);
  EXPECT_EQ(plans[0].sampled, Sampled::uniform);
  EXPECT_EQ(plans[0].sources_hash, kImportedSources);
  EXPECT_TRUE(store.check().empty());
  for (const double bad :
       {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    const std::vector<std::pair<std::uint16_t, double>> time = {{mask, bad}};
    EXPECT_THROW(contents_of_plan_times(kProblem, "l", "model", time, duplicates), base::UsageError) << bad;
  }
}

// Every file that is not ours, damaged or newer is refused as a source too, and stays as it is.
TEST_F(ContentsTest, ACopyOfAnotherStoreLeavesItAsItIs) {
  {
    TuningStore store = filled();
    // The writer is alive and its log is not yet in the file: a reader must see its rows all the same.
    ASSERT_TRUE(std::filesystem::exists(file_.string() + "-wal"));
    const std::string before = base::read_file(file_);
    const TuningStore copy(file_, {.access = Access::copy});
    EXPECT_EQ(exported(copy), exported(store));
    EXPECT_EQ(base::read_file(file_), before);
  }
  const std::string before = base::read_file(file_);
  const auto names = [&] {
    std::vector<std::string> all;
    for (const auto& entry : std::filesystem::directory_iterator(directory_.path()))
      all.push_back(entry.path().filename());
    std::sort(all.begin(), all.end());
    return all;
  };
  const std::vector<std::string> files = names();
  EXPECT_EQ(TuningStore(file_, {.access = Access::copy}).contents().plans.size(), 4u);
  EXPECT_EQ(base::read_file(file_), before);
  EXPECT_EQ(names(), files);

  base::write_file_atomic(other_, before.substr(0, before.size() / 2));
  EXPECT_THROW(TuningStore(other_, {.access = Access::copy}), DamagedFile);
  base::write_file_atomic(other_, std::string(5000, 'x'));
  EXPECT_THROW(TuningStore(other_, {.access = Access::copy}), base::EnvironmentError);
  EXPECT_THROW(TuningStore(directory_.path() / "none.db", {.access = Access::copy}), base::EnvironmentError);
  EXPECT_FALSE(std::filesystem::exists(directory_.path() / "none.db"));
}

// What a writer that was killed left in its log counts.
TEST_F(ContentsTest, ACopyHoldsTheLogOfAKilledWriter) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    TuningStore store = filled();
    if (write(ends[1], "r", 1) != 1) _exit(1);
    raise(SIGKILL);
  }
  char byte;
  ASSERT_EQ(read(ends[0], &byte, 1), 1);
  waitpid(child, nullptr, 0);
  close(ends[0]);
  close(ends[1]);
  ASSERT_TRUE(std::filesystem::exists(file_.string() + "-wal"));
  EXPECT_EQ(TuningStore(file_, {.access = Access::copy}).contents().segments.size(), 2u);
  // The same where the shared memory is gone, as on another machine.
  std::filesystem::remove(file_.string() + "-shm");
  EXPECT_EQ(TuningStore(file_, {.access = Access::copy}).contents().segments.size(), 2u);
  EXPECT_FALSE(std::filesystem::exists(file_.string() + "-shm"));
}

TEST_F(ContentsTest, AnOlderSchemaIsReadInACopyAndStaysOlder) {
  { const TuningStore store(file_, {.migrations = migrations().first(1)}); }
  EXPECT_EQ(TuningStore(file_, {.access = Access::copy}).stats().schema_version, 5);
  SQLite::Database raw(file_.string());
  EXPECT_EQ(raw.execAndGet("PRAGMA user_version").getInt(), 1);
}

}  // namespace
}  // namespace fusetune::store
