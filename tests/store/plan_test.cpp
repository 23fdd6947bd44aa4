// Whole plans: round trips, how they were chosen, claims, limits.
#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>

#include "store_fixture.h"

namespace fusetune::store {
namespace {

using measure::Outcome;

TEST_F(StoreTest, PlanRoundTripKeepsEveryField) {
  TuningStore store = opened();
  PlanRecord written = plan_of(500, Sampled::uniform, 1.0 / 3);
  written.typed_mask = 65535;
  written.run = run_;
  store.record_plan(written);
  const std::optional<PlanRecord> read = store.find_plan(written.key());
  ASSERT_TRUE(read);
  EXPECT_EQ(read->key(), written.key());
  EXPECT_EQ(read->typed_mask, 65535);
  EXPECT_EQ(read->schedules, written.schedules);
  EXPECT_EQ(read->sum_us, written.sum_us);
  EXPECT_EQ(read->sampled, Sampled::uniform);
  EXPECT_EQ(read->repeat_command, written.repeat_command);
  EXPECT_EQ(read->limits, (Limits{120, 60}));
  EXPECT_EQ(read->run, run_);
  EXPECT_GT(read->created, 1'600'000'000);
  EXPECT_EQ(read->measurement.time.median_us, 1.0 / 3);
  EXPECT_EQ(read->measurement.samples_us, written.measurement.samples_us);
  EXPECT_EQ(read->measurement.dropped, 1);
  EXPECT_EQ(read->measurement.norm_error, 1e-7);
  EXPECT_EQ(read->measurement.reference_us, written.measurement.reference_us);
  EXPECT_EQ(read->measurement.slowdown, 1.25);
  EXPECT_EQ(read->measurement.device_uuid, "GPU-1");
}

TEST_F(StoreTest, TheReferencesTimeIsTheFirstUnderTheSameSettings) {
  TuningStore store = opened();
  const std::string settings = settings_text(12, 1e-3, "5f0c");
  const auto known = [&] { return store.reference_time(kProblem, "env-a", "model", settings); };
  TuningRecord segment = record_of(1, "other settings");
  segment.created = 100;
  store.record(segment);
  EXPECT_FALSE(known());
  segment = record_of(1, "by itself");
  segment.key.settings = settings;
  segment.measurement.reference_us = 0;
  segment.created = 100;
  store.record(segment);
  EXPECT_FALSE(known());
  segment.key.source_hash = "beside";
  segment.measurement.reference_us = 3400;
  segment.created = 300;
  store.record(segment);
  EXPECT_EQ(known(), 3400);
  PlanRecord plan = plan_of(1);
  plan.settings = settings;
  plan.measurement.reference_us = 3300;
  plan.created = 200;
  store.record_plan(plan);
  EXPECT_EQ(known(), 3300);
  EXPECT_FALSE(store.reference_time(kProblem, "env-b", "model", settings));
  // What is agreed on counts from then on, whoever proposes something else.
  EXPECT_EQ(store.agree_on_reference_time(kProblem, "env-a", "model", settings, 3500), 3500);
  EXPECT_EQ(TuningStore(file_).agree_on_reference_time(kProblem, "env-a", "model", settings, 4700), 3500);
  EXPECT_EQ(known(), 3500);
  EXPECT_FALSE(store.reference_time(kProblem, "env-a", "cold", settings));
}

TEST_F(StoreTest, EveryPartOfAPlansKeySeparates) {
  TuningStore store = opened();
  store.begin_run("another problem", environment("env-b"), "{}");
  const PlanKey key = plan_of(1).key();
  store.record_plan(plan_of(1));
  std::vector<PlanKey> others(8, key);
  others[0].problem = "another problem";
  others[1].environment = "env-b";
  others[2].mask = plan_of(2).mask;
  others[3].sources_hash = "other";
  others[4].data = "weights 123";
  others[5].cache_mode = "cold";
  others[6].protocol = 2;
  others[7].settings = settings_text(40, 1e-3);
  for (const PlanKey& other : others) EXPECT_FALSE(store.find_plan(other));
  EXPECT_TRUE(store.find_plan(key));
}

TEST_F(StoreTest, PlanRecordsAreThoseOfOneProblemEnvironmentAndCacheMode) {
  TuningStore store = opened();
  store.begin_run("another problem", environment("env-b"), "{}");
  for (const std::size_t index : {std::size_t{7}, std::size_t{3}}) store.record_plan(plan_of(index));
  store.record_plan(failed(plan_of(9), Outcome::crashed, "signal 11"));
  PlanRecord other = plan_of(4);
  other.cache_mode = "cold";
  store.record_plan(other);
  other = plan_of(4);
  other.environment = "env-b";
  store.record_plan(other);
  store.claim_plan(plan_of(5), ClaimPolicy::retry);  // no result yet
  const std::vector<PlanRecord> records = store.plan_records(kProblem, "env-a", "model");
  ASSERT_EQ(records.size(), 3u);  // oldest first
  EXPECT_EQ(records[0].mask, plan_of(7).mask);
  EXPECT_EQ(records[1].mask, plan_of(3).mask);
  EXPECT_EQ(records[2].measurement.message, "signal 11");
  EXPECT_EQ(records[2].measurement.time.median_us, 0);
}

TEST_F(StoreTest, PlanIsClaimedThenRecorded) {
  TuningStore store = opened();
  const PlanRecord candidate = plan_of(8);
  EXPECT_EQ(store.claim_plan(candidate, ClaimPolicy::retry).state, ClaimState::granted);
  EXPECT_FALSE(store.find_plan(candidate.key()));
  store.record_plan(candidate);
  const PlanClaim again = store.claim_plan(candidate, ClaimPolicy::retry);
  EXPECT_EQ(again.state, ClaimState::measured);
  ASSERT_TRUE(again.record);
  EXPECT_EQ(again.record->measurement.time.median_us, 100);
  EXPECT_EQ(store.claim_plan(candidate, ClaimPolicy::fresh).state, ClaimState::granted);
  store.release_plan(candidate.key());  // what it replaced is there again
  ASSERT_TRUE(store.find_plan(candidate.key()));
  EXPECT_EQ(store.find_plan(candidate.key())->measurement.time.median_us, 100);
}

TEST_F(StoreTest, ReleasedPlanClaimLeavesNothing) {
  TuningStore store = opened();
  store.claim_plan(plan_of(8), ClaimPolicy::retry);
  EXPECT_EQ(store.stats().plans_by_outcome["started"], 1);
  store.release_plan(plan_of(8).key());
  EXPECT_TRUE(store.stats().plans_by_outcome.empty());
}

TEST_F(StoreTest, NoisyPlanIsMeasuredAtMostThreeTimes) {
  TuningStore store = opened();
  const PlanRecord noisy = failed(plan_of(9), Outcome::noisy, "4 of 12 samples dropped");
  for (int attempt = 1; attempt <= 3; ++attempt) {
    EXPECT_EQ(store.claim_plan(noisy, ClaimPolicy::retry).state, ClaimState::granted) << attempt;
    store.record_plan(noisy);
  }
  const PlanClaim last = store.claim_plan(noisy, ClaimPolicy::retry);
  EXPECT_EQ(last.state, ClaimState::measured);
  EXPECT_EQ(last.record->attempts, 3);
}

TEST_F(StoreTest, UniformDrawsStayUniform) {
  TuningStore store = opened();
  store.record_plan(plan_of(1, Sampled::uniform));
  store.record_plan(plan_of(1, Sampled::guided));
  EXPECT_EQ(store.find_plan(plan_of(1).key())->sampled, Sampled::uniform);
  store.claim_plan(plan_of(1, Sampled::guided), ClaimPolicy::fresh);
  store.record_plan(plan_of(1, Sampled::guided));
  EXPECT_EQ(store.find_plan(plan_of(1).key())->sampled, Sampled::uniform);
  store.record_finalists(run_, std::vector<ComparisonRecord>{{.plan = plan_of(1, Sampled::finalist)}});
  EXPECT_EQ(store.find_plan(plan_of(1).key())->sampled, Sampled::uniform);
}

// A draw that meets what a strategy chose before is a draw; looking at it for another reason changes nothing.
TEST_F(StoreTest, KnownPlanThatIsDrawnBecomesUniform) {
  TuningStore store = opened();
  store.record_finalists(run_, std::vector<ComparisonRecord>{{.plan = plan_of(1, Sampled::finalist)}});
  EXPECT_EQ(store.claim_plan(plan_of(1, Sampled::guided), ClaimPolicy::retry).record->sampled,
            Sampled::finalist);
  const PlanClaim drawn = store.claim_plan(plan_of(1, Sampled::uniform), ClaimPolicy::retry);
  EXPECT_EQ(drawn.state, ClaimState::measured);
  EXPECT_EQ(drawn.record->sampled, Sampled::uniform);
  EXPECT_EQ(store.find_plan(plan_of(1).key())->sampled, Sampled::uniform);
  EXPECT_EQ(store.find_plan(plan_of(1).key())->measurement.time.median_us, 100 / 1.25);
}

TEST_F(StoreTest, FinalistWithoutATimeLeavesTheTimeThePlanHas) {
  TuningStore store = opened();
  store.record_plan(plan_of(1, Sampled::guided, 90));
  for (const Outcome outcome : {Outcome::skipped, Outcome::noisy}) {
    store.record_finalists(
        run_, std::vector<ComparisonRecord>{{.plan = plan_of(2)}, {.plan = failed(plan_of(1), outcome, "")}});
    EXPECT_EQ(store.find_plan(plan_of(1).key())->measurement.time.median_us, 90) << name(outcome);
  }
  store.record_finalists(
      run_, std::vector<ComparisonRecord>{{.plan = failed(plan_of(1), Outcome::wrong_result, "differs")}});
  EXPECT_EQ(store.find_plan(plan_of(1).key())->measurement.outcome, Outcome::wrong_result);
}

// A search goes on from times that were taken among each other.
TEST_F(StoreTest, FinalistLeavesTheTimeThatAStrategyTook) {
  TuningStore store = opened();
  store.record_plan(plan_of(1, Sampled::guided, 90));
  store.record_finalists(run_, std::vector<ComparisonRecord>{{.plan = plan_of(1, Sampled::finalist, 80)},
                                                             {.plan = plan_of(2, Sampled::finalist, 70)}});
  EXPECT_EQ(store.find_plan(plan_of(1).key())->measurement.time.median_us, 90);
  EXPECT_EQ(store.find_plan(plan_of(1).key())->sampled, Sampled::guided);
  EXPECT_EQ(store.find_plan(plan_of(2).key())->sampled, Sampled::finalist);
  store.record_finalists(run_, std::vector<ComparisonRecord>{{.plan = plan_of(2, Sampled::finalist, 75)}});
  // The plan's row is in units of the reference, what the comparison saw is in the comparison.
  const measure::Measurement kept = store.find_plan(plan_of(2).key())->measurement;
  EXPECT_EQ(kept.time.median_us, 75 / 1.25);
  EXPECT_EQ(kept.samples_us, (std::vector<double>{75 * 0.9 / 1.25, 75 / 1.25, (75 + 0.1) / 1.25}));
  EXPECT_EQ(store.contents().finalists.at(run_)[0].plan.measurement.time.median_us, 75);
}

// A timeout answers only who would not wait longer.
template <typename Record, typename Claims, typename Records>
void expect_limits_matter(Record candidate, const Claims& claim, const Records& record) {
  candidate.limits = {120, 60};
  EXPECT_EQ(claim(candidate, ClaimPolicy::retry).state, ClaimState::granted);
  record(failed(candidate, Outcome::timeout, "60 s"));
  EXPECT_EQ(claim(candidate, ClaimPolicy::retry).state, ClaimState::measured);
  candidate.limits = {100, 50};
  EXPECT_EQ(claim(candidate, ClaimPolicy::retry).state, ClaimState::measured);
  candidate.limits = {100, 61};
  EXPECT_EQ(claim(candidate, ClaimPolicy::reuse).state, ClaimState::measured);
  EXPECT_EQ(claim(candidate, ClaimPolicy::retry).state, ClaimState::granted);
  record(failed(candidate, Outcome::timeout, "61 s"));
  EXPECT_EQ(claim(candidate, ClaimPolicy::retry).record->limits, (Limits{100, 61}));
  candidate.limits = {120, 61};
  EXPECT_EQ(claim(candidate, ClaimPolicy::retry).state, ClaimState::granted);
  record(candidate);  // in time
  candidate.limits = {500, 500};
  EXPECT_EQ(claim(candidate, ClaimPolicy::retry).state, ClaimState::measured);
}

TEST_F(StoreTest, TimeoutUnderShorterLimitsIsTriedAgain) {
  TuningStore store = opened();
  expect_limits_matter(
      record_of(1, "slow"),
      [&](const TuningRecord& candidate, ClaimPolicy policy) { return store.claim(candidate, policy); },
      [&](const TuningRecord& result) { store.record(result); });
  expect_limits_matter(
      plan_of(1),
      [&](const PlanRecord& candidate, ClaimPolicy policy) { return store.claim_plan(candidate, policy); },
      [&](const PlanRecord& result) { store.record_plan(result); });
}

TEST(Settings, AreWordsThatDistinguishWhatWasMeasuredDifferently) {
  EXPECT_EQ(settings_text(12, 1e-3), kDefaultSettings);
  EXPECT_EQ(settings_text(40, 0.25), "samples=40 min_time=0.25");
  EXPECT_EQ(settings_text(12, 1e-3, "5f0c"), "samples=12 min_time=0.001 reference=5f0c");
}

TEST_F(StoreTest, ConstraintsRefuseBadPlansFromOutside) {
  {
    TuningStore store = opened();
    store.record_plan(plan_of(6));
    store.record_plan(failed(plan_of(7), Outcome::timeout, "60 s"));
  }
  SQLite::Database raw(file_.string(), SQLite::OPEN_READWRITE);
  for (const char* statement : {
           "UPDATE plan_measurement SET median_us = 0 WHERE outcome = 'ok'",
           "UPDATE plan_measurement SET median_us = NULL WHERE outcome = 'ok'",
           "UPDATE plan_measurement SET median_us = 1 WHERE outcome = 'timeout'",
           "UPDATE plan_measurement SET sampled = 'somehow'",
           "UPDATE plan_measurement SET settings = ''",
           "UPDATE plan_measurement SET run_limit_s = 0",
           "UPDATE plan_measurement SET mask = 65536",
       }) {
    EXPECT_THROW(raw.exec(statement), SQLite::Exception) << statement;
  }
}

}  // namespace
}  // namespace fusetune::store
