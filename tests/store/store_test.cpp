// Round trips, what must never be stored, claims.
#include "store/tuning_store.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "store/process_identity.h"
#include "store_fixture.h"

namespace fusetune::store {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST_F(StoreTest, SegmentRoundTripKeepsEveryField) {
  TuningStore store = opened();
  TuningRecord written = record_of(42, "abc", 1.0 / 3);
  written.run = run_;
  store.record(written);
  const std::optional<TuningRecord> read = store.find(written.key);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->schedule, written.schedule);
  EXPECT_EQ(read->measurement.outcome, measure::Outcome::ok);
  EXPECT_EQ(read->measurement.time.median_us, 1.0 / 3);  // all digits survive
  EXPECT_EQ(read->measurement.time.count, 3);
  EXPECT_EQ(read->measurement.samples_us, written.measurement.samples_us);
  EXPECT_EQ(read->measurement.dropped, 1);
  EXPECT_EQ(read->measurement.norm_error, 1e-7);
  EXPECT_EQ(read->measurement.reference_us, written.measurement.reference_us);
  EXPECT_EQ(read->measurement.slowdown, 1.25);
  EXPECT_EQ(read->measurement.device_uuid, "GPU-1");
  EXPECT_EQ(read->repeat_command, written.repeat_command);
  EXPECT_EQ(read->run, run_);
  EXPECT_GT(read->created, 1'600'000'000);
}

TEST_F(StoreTest, RowsSurviveReopening) {
  const TuningRecord written = record_of(1, "abc");
  opened().record(written);
  EXPECT_TRUE(TuningStore(file_).find(written.key));
}

TEST_F(StoreTest, EveryPartOfTheKeySeparates) {
  TuningStore store = opened();
  store.begin_run("another problem", environment("env-b"), "{}");
  const SegmentKey key = record_of(1, "abc").key;
  store.record(record_of(1, "abc"));
  std::vector<SegmentKey> others(9, key);
  others[0].problem = "another problem";
  others[1].environment = "env-b";
  others[2].variant = 2;
  others[3].source_hash = "abd";
  others[4].layouts = "";
  others[5].data = "weights 123";
  others[6].cache_mode = "cold";
  others[7].protocol = 2;
  others[8].settings = settings_text(40, 1e-3);
  for (const SegmentKey& other : others) EXPECT_FALSE(store.find(other));
  EXPECT_TRUE(store.find(key));
}

TEST_F(StoreTest, FailuresKeepTheirMessageAndHaveNoTime) {
  TuningStore store = opened();
  const TuningRecord crash = failed(record_of(3, "x"), measure::Outcome::crashed, "signal 11 (SIGSEGV)");
  store.record(crash);
  const std::optional<TuningRecord> read = store.find(crash.key);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->measurement.outcome, measure::Outcome::crashed);
  EXPECT_EQ(read->measurement.message, "signal 11 (SIGSEGV)");
  EXPECT_EQ(read->measurement.time.median_us, 0);
  EXPECT_FALSE(store.best_schedule(kProblem, "env-a", {"model"}, 3));
}

// Times <= 0, NaN or inf never stored as ok.
TEST_F(StoreTest, OkNeedsAFinitePositiveTime) {
  TuningStore store = opened();
  for (const double bad : {0.0, -1.0, kNaN, kInfinity, -kInfinity}) {
    TuningRecord record = record_of(4, "bad");
    record.measurement.time.median_us = bad;
    EXPECT_THROW(store.record(record), base::InternalError) << bad;
    record = record_of(4, "bad");
    record.measurement.samples_us[1] = bad;
    EXPECT_THROW(store.record(record), base::InternalError) << bad;
    PlanRecord plan;
    plan.problem = kProblem;
    plan.environment = "env-a";
    plan.sources_hash = "s";
    plan.cache_mode = "model";
    plan.measurement = record_of(4, "bad").measurement;
    plan.measurement.time.min_us = bad;
    EXPECT_THROW(store.record_plan(plan), base::InternalError) << bad;
  }
  EXPECT_FALSE(store.find(record_of(4, "bad").key));
}

TEST_F(StoreTest, ErrorsThatAreNotNumbersAreLeftOut) {
  TuningStore store = opened();
  TuningRecord record = failed(record_of(5, "nan"), measure::Outcome::wrong_result, "output is NaN");
  record.measurement.norm_error = kNaN;
  record.measurement.worst_error = kInfinity;
  store.record(record);
  EXPECT_EQ(store.find(record.key)->measurement.norm_error, 0);
}

/// The file itself refuses what the program would never write.
TEST_F(StoreTest, ConstraintsRefuseBadRowsFromOutside) {
  {
    TuningStore store = opened();
    store.record(record_of(6, "good"));
    store.record(failed(record_of(6, "failed"), measure::Outcome::timeout, "60 s"));
  }
  SQLite::Database raw(file_.string(), SQLite::OPEN_READWRITE);
  for (const char* statement : {
           "UPDATE segment_measurement SET median_us = 0 WHERE outcome = 'ok'",
           "UPDATE segment_measurement SET median_us = -1 WHERE outcome = 'ok'",
           "UPDATE segment_measurement SET median_us = 9e999 WHERE outcome = 'ok'",
           "UPDATE segment_measurement SET median_us = NULL WHERE outcome = 'ok'",
           "UPDATE segment_measurement SET median_us = 1 WHERE outcome = 'timeout'",
           "UPDATE segment_measurement SET outcome = 'fine' WHERE outcome = 'ok'",
           "UPDATE segment_measurement SET variant = 147",
           "UPDATE segment_measurement SET variant = 'seven'",
       }) {
    EXPECT_THROW(raw.exec(statement), SQLite::Exception) << statement;
  }
}

TEST_F(StoreTest, UnregisteredProblemIsOurBug) {
  TuningStore store = opened();
  TuningRecord record = record_of(1, "abc");
  record.key.problem = "never registered";
  EXPECT_THROW(store.record(record), base::InternalError);
}

TEST_F(StoreTest, BestScheduleIsTheFastestOkOfTheNewestProtocol) {
  TuningStore store = opened();
  store.record(record_of(7, "slow", 20));
  store.record(record_of(7, "fast", 10));
  store.record(failed(record_of(7, "wrong", 1), measure::Outcome::wrong_result, "differs"));
  EXPECT_EQ(store.best_schedule(kProblem, "env-a", {"model"}, 7), record_of(7, "fast").schedule);
  TuningRecord newer = record_of(7, "new", 30);
  newer.key.protocol = 2;
  store.record(newer);
  EXPECT_EQ(store.best_schedule(kProblem, "env-a", {"model"}, 7), newer.schedule);
  const auto without_new = [&](const std::string& schedule, const std::string& source_hash) {
    EXPECT_EQ(schedule, record_of(7, source_hash).schedule);
    return source_hash != "new";
  };
  EXPECT_EQ(store.best_schedule(kProblem, "env-a", {"model"}, 7, without_new), record_of(7, "fast").schedule);
  const auto none = [](const auto&, const auto&) { return false; };
  EXPECT_FALSE(store.best_schedule(kProblem, "env-a", {"model"}, 7, none));
  EXPECT_FALSE(store.best_schedule(kProblem, "env-b", {"model"}, 7));
  EXPECT_FALSE(store.best_schedule(kProblem, "env-a", {"cold"}, 7));
  EXPECT_FALSE(store.best_schedule(kProblem, "env-a", {"model"}, 8));
}

// A time of few samples, of other data or of an older protocol says nothing beside one that is like what is
// asked for.
TEST_F(StoreTest, BestScheduleIsOfMeasurementsLikeOnesOwn) {
  TuningStore store = opened();
  const auto add = [&](const std::string& source, double us, const std::string& data,
                       const std::string& settings, int protocol) {
    TuningRecord record = record_of(7, source, us);
    record.key.data = data;
    record.key.settings = settings;
    record.key.protocol = protocol;
    store.record(record);
  };
  const auto best = [&](const MeasuredLike& like) {
    const auto schedule = store.best_schedule(kProblem, "env-a", like, 7);
    return schedule ? schedule->substr(schedule->rfind('=') + 1) : "none";
  };
  const std::string few = settings_text(2, 0.001);
  add("few", 1, "generated", few, 1);
  EXPECT_EQ(best({"model", "files-x", kDefaultSettings}), "few") << "better than no schedule at all";
  add("slow", 20, "generated", kDefaultSettings, 1);
  add("fast", 10, "generated", kDefaultSettings, 1);
  EXPECT_EQ(best({"model", "generated", kDefaultSettings}), "fast");
  EXPECT_EQ(best({"model", "generated", few}), "few");
  add("files", 30, "files-x", few, 1);
  EXPECT_EQ(best({"model", "files-x", kDefaultSettings}), "files");
  EXPECT_EQ(best({"model", "generated", kDefaultSettings}), "fast");
  add("newer", 40, "generated", few, 2);
  EXPECT_EQ(best({"model", "generated", kDefaultSettings}), "fast") << "settings first, then the protocol";
  EXPECT_EQ(best({"model", "generated", few}), "newer");
  EXPECT_EQ(best({"model"}), "newer");
  add("beside", 50, "generated", settings_text(12, 1e-3, "5f0c"), 2);
  EXPECT_EQ(best({"model", "generated", kDefaultSettings}), "beside") << "whatever reference was beside it";
}

TEST_F(StoreTest, ClaimThenRecord) {
  TuningStore store = opened();
  const TuningRecord candidate = record_of(8, "abc");
  EXPECT_EQ(store.claim(candidate, ClaimPolicy::retry).state, Claim::State::granted);
  EXPECT_FALSE(store.find(candidate.key));  // a claim is not a result
  EXPECT_EQ(store.stats().segments_by_outcome["started"], 1);
  store.record(candidate);
  const Claim again = store.claim(candidate, ClaimPolicy::retry);
  EXPECT_EQ(again.state, Claim::State::measured);
  ASSERT_TRUE(again.record);
  EXPECT_EQ(again.record->measurement.time.median_us, 12.5);
  EXPECT_EQ(store.claim(candidate, ClaimPolicy::fresh).state, Claim::State::granted);
}

TEST_F(StoreTest, ReleasedClaimLeavesNothing) {
  TuningStore store = opened();
  const TuningRecord candidate = record_of(8, "abc");
  store.claim(candidate, ClaimPolicy::retry);
  store.release(candidate.key);
  EXPECT_TRUE(store.stats().segments_by_outcome.empty());
  store.record(candidate);
  store.release(candidate.key);  // only claims are released
  EXPECT_TRUE(store.find(candidate.key));
}

TEST_F(StoreTest, ReleasedClaimGivesBackWhatItReplaced) {
  TuningStore store = opened();
  const TuningRecord candidate = record_of(8, "abc");
  store.record(candidate);
  EXPECT_EQ(store.claim(candidate, ClaimPolicy::fresh).state, Claim::State::granted);
  EXPECT_FALSE(store.find(candidate.key));
  store.release(candidate.key);
  ASSERT_TRUE(store.find(candidate.key));
  EXPECT_EQ(store.find(candidate.key)->measurement.time.median_us, 12.5);
}

TEST_F(StoreTest, NoisyIsMeasuredAtMostThreeTimes) {
  TuningStore store = opened();
  const TuningRecord noisy = failed(record_of(9, "n"), measure::Outcome::noisy, "4 of 12 samples dropped");
  for (int attempt = 1; attempt <= 3; ++attempt) {
    EXPECT_EQ(store.claim(noisy, ClaimPolicy::retry).state, Claim::State::granted) << attempt;
    store.record(noisy);
  }
  const Claim last = store.claim(noisy, ClaimPolicy::retry);
  EXPECT_EQ(last.state, Claim::State::measured);
  EXPECT_EQ(last.record->attempts, 3);
}

TEST_F(StoreTest, FinalistsRoundTrip) {
  TuningStore store = opened();
  std::vector<ComparisonRecord> written(3);
  for (std::size_t i = 0; i < written.size(); ++i) {
    PlanRecord& plan = written[i].plan;
    plan.problem = kProblem;
    plan.environment = "env-a";
    plan.mask = plan::all_plans()[100 * i].canonical_mask().value;
    plan.schedules = {"a", "b \"quoted\""};
    plan.sources_hash = "hash" + std::to_string(i);
    plan.cache_mode = "model";
    plan.sum_us = 90 + static_cast<double>(i);
    plan.measurement.outcome = measure::Outcome::ok;
    plan.measurement.time = {100, 1, 98, 160};
    written[i].pairs = 160;
  }
  written[1].plan.typed_mask = 65535;
  written[1].ratio = 1.02;
  written[1].low = 1.01;
  written[1].high = kInfinity;  // too few pairs for an interval
  written[1].whole_over_sum = {0.98, 0.97, 0.99};
  written[2].plan.measurement = {};
  written[2].plan.measurement.outcome = measure::Outcome::wrong_result;
  written[2].plan.measurement.message = "output differs";
  store.record_finalists(run_, written);
  EXPECT_FALSE(store.find_finalists("inputs"));  // the run has not finished
  store.finish_run(run_, RunState::finished, R"({"best": 1})", "inputs");
  const auto read = store.find_finalists("inputs");
  ASSERT_TRUE(read);
  ASSERT_EQ(read->size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ((*read)[i].plan.mask, written[i].plan.mask);
  EXPECT_EQ((*read)[1].plan.schedules, written[1].plan.schedules);
  EXPECT_EQ((*read)[1].plan.typed_mask, 65535);
  EXPECT_EQ((*read)[1].ratio, 1.02);
  EXPECT_EQ((*read)[1].high, kInfinity);
  EXPECT_EQ((*read)[1].plan.measurement.time.median_us, 100);
  EXPECT_EQ((*read)[1].plan.sum_us, 91);
  EXPECT_FALSE((*read)[0].whole_over_sum);
  ASSERT_TRUE((*read)[1].whole_over_sum);
  EXPECT_EQ((*read)[1].whole_over_sum->ratio, 0.98);
  EXPECT_EQ((*read)[1].whole_over_sum->low, 0.97);
  EXPECT_EQ((*read)[1].whole_over_sum->high, 0.99);
  EXPECT_EQ((*read)[2].plan.measurement.outcome, measure::Outcome::wrong_result);
  EXPECT_EQ((*read)[2].plan.measurement.message, "output differs");
  EXPECT_FALSE(store.find_finalists("other inputs"));
  EXPECT_EQ(store.runs().front().result, R"({"best": 1})");
}

TEST_F(StoreTest, CheckFindsContradictions) {
  opened().record(record_of(10, "abc"));
  EXPECT_TRUE(TuningStore(file_).check().empty());
  {
    SQLite::Database raw(file_.string(), SQLite::OPEN_READWRITE);
    raw.exec("UPDATE segment_measurement SET first_operator = 3, last_operator = 3, samples = '[1.0]'");
  }
  EXPECT_THAT(TuningStore(file_).check(),
              testing::UnorderedElementsAre(testing::HasSubstr("is not [3]"), testing::HasSubstr("samples")));
  {
    SQLite::Database raw(file_.string(), SQLite::OPEN_READWRITE);
    raw.exec("PRAGMA foreign_keys = OFF; DELETE FROM search_run; DELETE FROM segment_measurement");
    raw.exec(
        "INSERT INTO comparison (run, position, plan, baseline, outcome, message, pairs)"
        " VALUES (99, 0, 98, 98, 'noisy', '', 0)");
  }
  EXPECT_THAT(TuningStore(file_).check(), testing::Contains(testing::HasSubstr("comparison row 1")));
}

TEST(ProcessIdentity, KnowsItselfAndTheDead) {
  const std::string self = this_process();
  EXPECT_EQ(life_of(self), Life::alive);
  // The same pid with another start time is another, dead process.
  EXPECT_EQ(life_of(self.substr(0, self.rfind('/')) + "/1"), Life::dead);
  EXPECT_EQ(life_of("another-boot/pid:[1]/17/3"), Life::unknown);
  EXPECT_EQ(life_of("nonsense"), Life::unknown);
}

}  // namespace
}  // namespace fusetune::store
