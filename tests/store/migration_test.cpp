// From every older schema to the newest, with rows in every table.
#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>

#include "store_fixture.h"

namespace fusetune::store {
namespace {

using measure::Outcome;

/// What the program of version 1 wrote: a segment that was timed and one that timed out, two finalists.
constexpr const char* kRowsOfVersion1 = R"sql(
INSERT INTO problem VALUES (3, 'batch=1 seq=16 heads=2 head_size=8');
INSERT INTO environment VALUES (5, 'env-a', '{"isa":"avx2"}');
INSERT INTO search_run VALUES (7, 3, 5, 'finished', 'boot/pid/1/2', 1700000000, 1700000100, '{"pairs": 40}',
  'inputs', '{"best": 1}');
INSERT INTO segment_measurement VALUES (11, 3, 5, 7, 0, 0, 0, 0, 'tile=6x16', 'abc', 'w=panel16', 'generated',
  'model', 1, 'ok', '', 12.5, 0.25, 11.25, 3, '[11.25,12.5,12.6]', 1, 1e-7, NULL, 'boot/pid/1/2', 2, 1,
  'fusetune verify 0', 1700000001);
INSERT INTO segment_measurement VALUES (12, 3, 5, NULL, 0, 0, 0, 0, 'tile=4x32', 'abd', '', 'generated',
  'cold', 1, 'timeout', '60 s', NULL, NULL, NULL, NULL, NULL, 0, NULL, NULL, '', 1, 0, '', 1700000002);
INSERT INTO plan_measurement VALUES (21, 3, 5, 7, 0, NULL, '["a","b"]', 'sources', 'generated', 'model', 1,
  'ok', '', 100, 1, 98, 160, 101, 1700000003);
INSERT INTO plan_measurement VALUES (22, 3, 5, 7, 1, 65535, '["c"]', 'sources2', 'generated', 'model', 1,
  'wrong_result', 'differs', NULL, NULL, NULL, NULL, NULL, 1700000004);
INSERT INTO comparison VALUES (31, 7, 0, 21, 21, 'ok', '', 1, 1, 1, 160, 100, 1, 98, 160, 0.98, 0.97, 0.99);
INSERT INTO comparison VALUES (32, 7, 1, 22, 21, 'wrong_result', 'differs', NULL, NULL, NULL, 0, NULL, NULL,
  NULL, NULL, NULL, NULL, NULL);
)sql";

/// What the program of version 2 wrote: a segment timed under settings of its own and one that timed out
/// under limits, a plan that was drawn and one that a finalist of the comparison is.
constexpr const char* kRowsOfVersion2 = R"sql(
INSERT INTO problem VALUES (3, 'batch=1 seq=16 heads=2 head_size=8');
INSERT INTO environment VALUES (5, 'env-a', '{"isa":"avx2"}');
INSERT INTO search_run VALUES (7, 3, 5, 'finished', 'boot/pid/1/2', 1700000000, 1700000100, '{"pairs": 40}',
  'inputs', '{"best": 1}');
INSERT INTO segment_measurement VALUES (11, 3, 5, 7, 0, 0, 0, 0, 'tile=6x16', 'abc', 'w=panel16', 'generated',
  'model', 1, 'samples=5 min_time=0.02', 'ok', '', 12.5, 0.25, 11.25, 3, '[11.25,12.5,12.6]', 1, 1e-7, NULL,
  'boot/pid/1/2', 2, 1, 'fusetune verify 0', NULL, NULL, 1700000001);
INSERT INTO segment_measurement VALUES (12, 3, 5, NULL, 0, 0, 0, 0, 'tile=4x32', 'abd', '', 'generated',
  'model', 1, 'samples=5 min_time=0.02', 'timeout', '60 s', NULL, NULL, NULL, NULL, NULL, 0, NULL, NULL, '', 1, 0,
  '', 120, 60, 1700000002);
INSERT INTO plan_measurement VALUES (21, 3, 5, 7, 0, NULL, '["a","b"]', 'sources', 'generated', 'model', 1,
  'samples=5 min_time=0.02', 'uniform', 'ok', '', 100, 1, 98, 3, '[98,100,102]', 2, 1e-7, 2e-7, 101,
  'boot/pid/1/2', 1, 0, 'fusetune bench 0', 120, 60, 1700000003);
INSERT INTO plan_measurement VALUES (22, 3, 5, 7, 1, 65535, '["c"]', 'sources2', 'generated', 'model', 1,
  'samples=5 min_time=0.02', 'finalist', 'wrong_result', 'differs', NULL, NULL, NULL, NULL, NULL, 0, NULL, NULL,
  NULL, '', 1, 0, '', NULL, NULL, 1700000004);
INSERT INTO comparison VALUES (31, 7, 0, 21, 21, 'ok', '', 1, 1, 1, 160, 100, 1, 98, 160, 0.98, 0.97, 0.99);
INSERT INTO comparison VALUES (32, 7, 1, 22, 21, 'wrong_result', 'differs', NULL, NULL, NULL, 0, NULL, NULL,
  NULL, NULL, NULL, NULL, NULL);
)sql";

/// What the program of version 3 wrote: a segment and a plan beside the reference, and one agreed time of
/// that.
constexpr const char* kRowsOfVersion3 = R"sql(
INSERT INTO problem VALUES (3, 'batch=1 seq=16 heads=2 head_size=8');
INSERT INTO environment VALUES (5, 'env-a', '{"uuid":"GPU-1"}');
INSERT INTO search_run VALUES (7, 3, 5, 'finished', 'boot/pid/1/2', 1700000000, 1700000100, '{"pairs": 40}',
  'inputs', '{"best": 1}');
INSERT INTO segment_measurement VALUES (11, 3, 5, 7, 0, 0, 0, 0, 'tile=6x16', 'abc', 'w=panel16', 'generated',
  'model', 2, 'samples=12 min_time=0.001 reference=5f', 'ok', '', 12.5, 0.25, 11.25, 3, '[11.25,12.5,12.6]', 1,
  1e-7, NULL, 'boot/pid/1/2', 2, 1, 'fusetune verify 0', 120, 60, 1700000001, 55, 1.5);
INSERT INTO plan_measurement VALUES (21, 3, 5, 7, 0, NULL, '["a","b"]', 'sources', 'generated', 'model', 2,
  'samples=12 min_time=0.001 reference=5f', 'guided', 'ok', '', 100, 1, 98, 3, '[98,100,102]', 2, 1e-7, 2e-7, 101,
  'boot/pid/1/2', 1, 0, 'fusetune bench 0', 120, 60, 1700000003, 55, 1.25);
INSERT INTO comparison VALUES (31, 7, 0, 21, 21, 'ok', '', 1, 1, 1, 160, 100, 1, 98, 160, 0.98, 0.97, 0.99);
INSERT INTO reference_time VALUES (1, 'batch=1 seq=16 heads=2 head_size=8', 'env-a', 'model',
  'samples=12 min_time=0.001 reference=5f', 55);
)sql";

/// What the program of version 4 wrote: of two segments and two plans beside a reference one each whose
/// samples differ by more than 6 %, and a plan of a comparison, by the clock, that does too.
constexpr const char* kRowsOfVersion4 = R"sql(
INSERT INTO problem VALUES (3, 'batch=1 seq=16 heads=2 head_size=8');
INSERT INTO environment VALUES (5, 'env-a', '{"isa":"avx2"}');
INSERT INTO segment_measurement VALUES (11, 3, 5, NULL, 0, 0, 0, 0, 'tile=6x16', 'abc', '', 'generated',
  'model', 2, 'samples=12 min_time=0.001 reference=5f', 'ok', '', 12.5, 0.75, 11.25, 8, '[11.25,12.5,13.25,12.5,12.5,12.5,12.5,12.5]', 1,
  1e-7, NULL, '', 2, 0, 'fusetune verify 0', 120, 60, 1700000001, 55, 1.5, NULL);
INSERT INTO segment_measurement VALUES (12, 3, 5, NULL, 1, 0, 1, 0, 'tile=6x16', 'abd', '', 'generated',
  'model', 2, 'samples=12 min_time=0.001 reference=5f', 'ok', '', 12.5, 0.76, 11.25, 8, '[11.25,12.5,13.26,12.5,12.5,12.5,12.5,12.5]', 1,
  1e-7, NULL, '', 3, 0, 'fusetune verify 1', 120, 60, 1700000002, 55, 1.5, NULL);
INSERT INTO plan_measurement VALUES (21, 3, 5, NULL, 0, NULL, '["a"]', 'sources', 'generated', 'model', 2,
  'samples=12 min_time=0.001 reference=5f', 'guided', 'ok', '', 100, 6.1, 98, 8, '[98,100,106.1,100,100,100,100,100]', 2, 1e-7, 2e-7,
  101, '', 1, 0, 'fusetune bench 0', 120, 60, 1700000003, 55, 1.25, NULL);
INSERT INTO plan_measurement VALUES (22, 3, 5, NULL, 1, NULL, '["c"]', 'sources2', 'generated', 'model', 2,
  'samples=12 min_time=0.001 reference=5f', 'finalist', 'ok', '', 100, 30, 70, 8, '[70,100,130,100,100,100,100,100]', 0, NULL, NULL, 101,
  '', 1, 0, '', NULL, NULL, 1700000004, NULL, NULL, NULL);
)sql";

/// A file as the program of an older version left it: its schema from data/schema, and its rows.
void make_version(int version, const char* rows, const std::filesystem::path& file) {
  { const TuningStore store(file, {.migrations = migrations().first(static_cast<std::size_t>(version))}); }
  SQLite::Database raw(file.string(), SQLite::OPEN_READWRITE);
  raw.exec("PRAGMA foreign_keys = ON");
  raw.exec(rows);
  ASSERT_EQ(raw.execAndGet("PRAGMA user_version").getInt(), version);
}
void make_version_1(const std::filesystem::path& file) { make_version(1, kRowsOfVersion1, file); }
void make_version_2(const std::filesystem::path& file) { make_version(2, kRowsOfVersion2, file); }
void make_version_3(const std::filesystem::path& file) { make_version(3, kRowsOfVersion3, file); }
void make_version_4(const std::filesystem::path& file) { make_version(4, kRowsOfVersion4, file); }

TEST_F(StoreTest, MigrationFromOneKeepsRunsAndSegments) {
  make_version_1(file_);
  TuningStore store(file_);
  EXPECT_EQ(store.stats().schema_version, 5);
  EXPECT_TRUE(store.check().empty());
  const std::vector<RunRecord> runs = store.runs();
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].id, 7);
  EXPECT_EQ(runs[0].result, R"({"best": 1})");

  const std::vector<TuningRecord> timed = store.records(kProblem, "env-a", "model");
  ASSERT_EQ(timed.size(), 1u);
  EXPECT_EQ(timed[0].key.settings, kDefaultSettings);
  EXPECT_EQ(timed[0].key.source_hash, "abc");
  EXPECT_EQ(timed[0].key.layouts, "w=panel16");
  EXPECT_EQ(timed[0].schedule, "tile=6x16");
  EXPECT_EQ(timed[0].measurement.time.median_us, 12.5);
  EXPECT_EQ(timed[0].measurement.samples_us, (std::vector<double>{11.25, 12.5, 12.6}));
  EXPECT_EQ(timed[0].measurement.dropped, 1);
  EXPECT_EQ(timed[0].measurement.reference_us, 0);  // timed by itself
  EXPECT_EQ(timed[0].measurement.slowdown, 1);
  EXPECT_EQ(timed[0].attempts, 2);
  EXPECT_EQ(timed[0].abandoned, 1);
  EXPECT_EQ(timed[0].run, 7);
  EXPECT_EQ(timed[0].created, 1'700'000'001);
  EXPECT_EQ(timed[0].repeat_command, "fusetune verify 0");

  // Under which limits it timed out was not recorded: it is tried again.
  TuningRecord slow = store.records(kProblem, "env-a", "cold").at(0);
  EXPECT_EQ(slow.measurement.outcome, Outcome::timeout);
  EXPECT_EQ(slow.limits, Limits{});
  slow.limits = {120, 60};
  EXPECT_EQ(store.claim(slow, ClaimPolicy::retry).state, ClaimState::granted);
}

TEST_F(StoreTest, MigrationFromOneKeepsPlansAndFinalists) {
  make_version_1(file_);
  TuningStore store(file_);
  const std::vector<PlanRecord> plans = store.plan_records(kProblem, "env-a", "model");
  ASSERT_EQ(plans.size(), 2u);
  EXPECT_EQ(plans[0].sampled, Sampled::finalist);
  EXPECT_EQ(plans[0].settings, kDefaultSettings);
  EXPECT_EQ(plans[0].measurement.time.median_us, 100);
  EXPECT_EQ(plans[0].measurement.time.count, 160);
  EXPECT_TRUE(plans[0].measurement.samples_us.empty());
  EXPECT_EQ(plans[0].sum_us, 101);
  EXPECT_EQ(plans[0].attempts, 1);
  EXPECT_EQ(plans[1].typed_mask, 65535);
  EXPECT_EQ(plans[1].measurement.message, "differs");
  const auto finalists = store.find_finalists("inputs");
  ASSERT_TRUE(finalists);
  ASSERT_EQ(finalists->size(), 2u);
  EXPECT_EQ((*finalists)[0].plan.mask, 0);
  EXPECT_EQ((*finalists)[0].whole_over_sum->ratio, 0.98);
  EXPECT_EQ((*finalists)[1].plan.measurement.outcome, Outcome::wrong_result);
  // The file goes on as one of the newest version.
  store.record_plan(plan_of(300, Sampled::uniform));
  EXPECT_EQ(store.plan_records(kProblem, "env-a", "model").size(), 3u);
  EXPECT_TRUE(store.check().empty());
}

TEST_F(StoreTest, MigrationFromTwoKeepsWhatOneDidNotHave) {
  make_version_2(file_);
  TuningStore store(file_);
  EXPECT_EQ(store.stats().schema_version, 5);
  EXPECT_TRUE(store.check().empty());
  const std::vector<TuningRecord> segments = store.records(kProblem, "env-a", "model");
  ASSERT_EQ(segments.size(), 2u);
  EXPECT_EQ(segments[0].key.settings, "samples=5 min_time=0.02");
  EXPECT_EQ(segments[0].measurement.time.median_us, 12.5);
  EXPECT_EQ(segments[0].measurement.reference_us, 0) << "it was timed by itself";
  EXPECT_EQ(segments[0].measurement.slowdown, 1);
  EXPECT_EQ(segments[1].limits, (Limits{120, 60}));
  EXPECT_EQ(store.claim(segments[1], ClaimPolicy::retry).state, ClaimState::measured);

  const std::vector<PlanRecord> plans = store.plan_records(kProblem, "env-a", "model");
  ASSERT_EQ(plans.size(), 2u);
  EXPECT_EQ(plans[0].sampled, Sampled::uniform);
  EXPECT_EQ(plans[0].measurement.samples_us, (std::vector<double>{98, 100, 102}));
  EXPECT_EQ(plans[0].measurement.dropped, 2);
  EXPECT_EQ(plans[0].limits, (Limits{120, 60}));
  EXPECT_EQ(plans[0].repeat_command, "fusetune bench 0");
  EXPECT_EQ(plans[1].measurement.outcome, Outcome::wrong_result);
  EXPECT_EQ(plans[1].typed_mask, 65535);
  const auto finalists = store.find_finalists("inputs");
  ASSERT_TRUE(finalists);
  EXPECT_EQ((*finalists)[0].whole_over_sum->ratio, 0.98);
  EXPECT_EQ(store.runs().at(0).result, R"({"best": 1})");

  // The file goes on as one of the newest version: times have a reference, which two searches agree on.
  const std::string settings = settings_text(5, 0.02, "5f0c2a9b41d7");
  EXPECT_EQ(store.reference_time(kProblem, "env-a", "model", settings), std::nullopt);
  EXPECT_EQ(store.agree_on_reference_time(kProblem, "env-a", "model", settings, 60), 60);
  store.record(record_of(0, "abe"));
  EXPECT_EQ(store.records(kProblem, "env-a", "model").back().measurement.slowdown, 1.25);
}

TEST_F(StoreTest, MigrationFromThreeKeepsTheReferenceAndKnowsNoDevice) {
  make_version_3(file_);
  TuningStore store(file_);
  EXPECT_EQ(store.stats().schema_version, 5);
  EXPECT_TRUE(store.check().empty());
  const std::vector<TuningRecord> segments = store.records(kProblem, "env-a", "model");
  ASSERT_EQ(segments.size(), 1u);
  EXPECT_EQ(segments[0].measurement.time.median_us, 12.5);
  EXPECT_EQ(segments[0].measurement.reference_us, 55);
  EXPECT_EQ(segments[0].measurement.slowdown, 1.5);
  EXPECT_EQ(segments[0].measurement.device_uuid, "");
  const std::vector<PlanRecord> plans = store.plan_records(kProblem, "env-a", "model");
  ASSERT_EQ(plans.size(), 1u);
  EXPECT_EQ(plans[0].measurement.samples_us, (std::vector<double>{98, 100, 102}));
  EXPECT_EQ(plans[0].measurement.slowdown, 1.25);
  EXPECT_EQ(plans[0].measurement.device_uuid, "");
  EXPECT_EQ(store.reference_time(kProblem, "env-a", "model", plans[0].settings), 55);
  ASSERT_TRUE(store.find_finalists("inputs"));
  EXPECT_EQ(store.find_finalists("inputs")->at(0).plan.measurement.device_uuid, "");

  // The file goes on as one of the newest version: rows and comparisons say on which device they were made.
  store.record(record_of(0, "abe"));
  EXPECT_EQ(store.records(kProblem, "env-a", "model").back().measurement.device_uuid, "GPU-1");
  ComparisonRecord finalist;
  finalist.plan = plan_of(300);
  store.record_finalists(7, std::vector{finalist});
  EXPECT_EQ(store.find_finalists("inputs")->at(0).plan.measurement.device_uuid, "GPU-1");
  SQLite::Database raw(file_.string());
  EXPECT_EQ(raw.execAndGet("SELECT count(*) FROM plan_measurement WHERE device_uuid = 'GPU-1'").getInt(), 1);
}

TEST_F(StoreTest, MigrationFromFourWithdrawsTimesOfSamplesThatDiffer) {
  make_version_4(file_);
  TuningStore store(file_);
  EXPECT_EQ(store.stats().schema_version, 5);
  EXPECT_TRUE(store.check().empty());
  const std::vector<TuningRecord> segments = store.records(kProblem, "env-a", "model");
  ASSERT_EQ(segments.size(), 2u);
  EXPECT_EQ(segments[0].measurement.outcome, Outcome::ok) << "6 % are allowed";
  EXPECT_EQ(segments[0].measurement.time.median_us, 12.5);
  EXPECT_EQ(segments[1].measurement.outcome, Outcome::noisy);
  EXPECT_TRUE(segments[1].measurement.samples_us.empty());
  EXPECT_EQ(store.claim(segments[1], ClaimPolicy::retry).state, ClaimState::granted)
      << "three attempts were spent";
  const std::vector<PlanRecord> plans = store.plan_records(kProblem, "env-a", "model");
  ASSERT_EQ(plans.size(), 2u);
  EXPECT_EQ(plans[0].measurement.outcome, Outcome::noisy);
  EXPECT_EQ(plans[1].measurement.time.median_us, 100)
      << "it was compared by pairs: its ratio has an interval";
}

// One statement for each object: a file that was migrated and a new one differ in nothing.
TEST_F(StoreTest, MigratedAndNewFilesHaveEqualSchemas) {
  make_version_1(file_);
  const std::filesystem::path of_version_2 = directory_.path() / "two.db";
  make_version_2(of_version_2);
  const std::filesystem::path of_version_3 = directory_.path() / "three.db";
  make_version_3(of_version_3);
  const std::filesystem::path fresh = directory_.path() / "new.db";
  const auto schema = [](const std::filesystem::path& file) {
    { const TuningStore store(file); }
    SQLite::Database raw(file.string());
    SQLite::Statement objects(raw, "SELECT name, sql FROM sqlite_master ORDER BY name");
    std::string text;
    while (objects.executeStep())
      text += objects.getColumn(0).getString() + ": " + objects.getColumn(1).getString() + "\n";
    return text;
  };
  const std::string migrated = schema(file_);
  EXPECT_EQ(migrated, schema(fresh));
  EXPECT_EQ(schema(of_version_2), migrated);
  EXPECT_EQ(schema(of_version_3), migrated);
  EXPECT_THAT(migrated, testing::Not(testing::ContainsRegex("(measurement|comparison)_1[^:]")));
}

}  // namespace
}  // namespace fusetune::store
