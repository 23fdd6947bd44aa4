#include "store/tuning_store.h"

#include <SQLiteCpp/SQLiteCpp.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <system_error>

#include "base/error.h"
#include "plan/fusion_plan.h"
#include "store/database.h"
#include "store/json_text.h"
#include "store/process_identity.h"

namespace fusetune::store {
namespace {

/// A claim whose process cannot be looked up (another machine or container) is given up after this long:
/// several times what checking and timing one candidate may take.
constexpr std::int64_t kForeignClaimSeconds = 900;
constexpr int kNoisyAttempts = 3;
constexpr const char* kStarted = "started";

constexpr const char* kAbandonedMessage =
    "the searching process ended while this candidate ran: it was killed, or the candidate brought the "
    "machine down";

std::int64_t now() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(since).count();
}

bool is_time(double us) { return std::isfinite(us) && us > 0; }

/// The last gate in front of the file: only `ok` has a time, and it is a number.
void require_valid(const measure::Measurement& measurement) {
  if (measurement.outcome != measure::Outcome::ok) return;
  const measure::TimingSummary& time = measurement.time;
  bool valid = is_time(time.median_us) && is_time(time.min_us) && std::isfinite(time.mad_us) &&
               time.mad_us >= 0 && time.count >= 1;
  for (const double sample : measurement.samples_us) valid = valid && is_time(sample);
  if (!valid)
    throw base::InternalError("an `ok` measurement without a finite, positive time must not be stored");
}

/// Binds nothing (NULL) where there is no number to store.
void bind_number(SQLite::Statement& statement, const char* name, double value, bool present) {
  if (present && std::isfinite(value)) {
    statement.bind(name, value);
  } else {
    statement.bind(name);
  }
}

void bind_time(SQLite::Statement& statement, const measure::Measurement& measurement) {
  const bool ok = measurement.outcome == measure::Outcome::ok;
  bind_number(statement, ":median_us", measurement.time.median_us, ok);
  bind_number(statement, ":mad_us", measurement.time.mad_us, ok);
  bind_number(statement, ":min_us", measurement.time.min_us, ok);
  if (ok) {
    statement.bind(":sample_count", measurement.time.count);
  } else {
    statement.bind(":sample_count");
  }
}

void bind_run(SQLite::Statement& statement, std::int64_t run) {
  if (run > 0) {
    statement.bind(":run", run);
  } else {
    statement.bind(":run");
  }
}

measure::TimingSummary read_time(SQLite::Statement& row) {
  return {row.getColumn("median_us").getDouble(), row.getColumn("mad_us").getDouble(),
          row.getColumn("min_us").getDouble(), row.getColumn("sample_count").getInt()};
}

constexpr const char* kProblemId = "(SELECT id FROM problem WHERE key = :problem)";
constexpr const char* kEnvironmentId = "(SELECT id FROM environment WHERE fingerprint = :environment)";

std::string key_condition() {
  return std::string("s.problem = ") + kProblemId + " AND s.environment = " + kEnvironmentId +
         " AND s.variant = :variant AND s.source_hash = :source_hash AND s.layouts = :layouts AND s.data = "
         ":data"
         " AND s.cache_mode = :cache_mode AND s.protocol = :protocol";
}

void bind_key(SQLite::Statement& statement, const SegmentKey& key) {
  statement.bind(":problem", key.problem);
  statement.bind(":environment", key.environment);
  statement.bind(":variant", key.variant);
  statement.bind(":source_hash", key.source_hash);
  statement.bind(":layouts", key.layouts);
  statement.bind(":data", key.data);
  statement.bind(":cache_mode", key.cache_mode);
  statement.bind(":protocol", key.protocol);
}

/// A row as it is in the file: a record, or a claim (`started`) with its owner.
struct SegmentRow {
  TuningRecord record;
  bool started = false;
  std::string owner;
};

constexpr const char* kSelectSegments =
    "SELECT s.*, p.key AS problem_key, e.fingerprint AS fingerprint FROM segment_measurement s"
    " JOIN problem p ON p.id = s.problem JOIN environment e ON e.id = s.environment WHERE ";

SegmentRow read_segment(SQLite::Statement& row) {
  SegmentRow result;
  TuningRecord& record = result.record;
  record.key = {row.getColumn("problem_key"), row.getColumn("fingerprint"), row.getColumn("variant"),
                row.getColumn("source_hash"), row.getColumn("layouts"),     row.getColumn("data"),
                row.getColumn("cache_mode"),  row.getColumn("protocol")};
  record.schedule = row.getColumn("schedule").getString();
  record.repeat_command = row.getColumn("repeat_command").getString();
  record.attempts = row.getColumn("attempts");
  record.abandoned = row.getColumn("abandoned");
  record.run = row.getColumn("run").getInt64();
  record.created = row.getColumn("created").getInt64();
  result.owner = row.getColumn("owner").getString();
  const std::string outcome = row.getColumn("outcome").getString();
  result.started = outcome == kStarted;
  measure::Measurement& measurement = record.measurement;
  measurement.outcome = result.started ? measure::Outcome::skipped : measure::parse_outcome(outcome);
  measurement.message = row.getColumn("message").getString();
  measurement.dropped = row.getColumn("dropped");
  measurement.norm_error = row.getColumn("norm_error").getDouble();
  measurement.worst_error = row.getColumn("worst_error").getDouble();
  if (measurement.outcome == measure::Outcome::ok) {
    measurement.time = read_time(row);
    measurement.samples_us = numbers_from_json(row.getColumn("samples").getString());
  }
  return result;
}

std::optional<SegmentRow> select_segment(SQLite::Database& database, const SegmentKey& key) {
  SQLite::Statement statement(database, kSelectSegments + key_condition());
  bind_key(statement, key);
  if (!statement.executeStep()) return std::nullopt;
  return read_segment(statement);
}

/// Inserts or replaces one row of segment_measurement.
void write_segment(SQLite::Database& database, const SegmentRow& row) {
  const TuningRecord& record = row.record;
  const measure::Measurement& measurement = record.measurement;
  const plan::SegmentVariant& variant = plan::all_variants()[static_cast<std::size_t>(record.key.variant)];
  SQLite::Statement statement(
      database,
      std::string(
          "INSERT INTO segment_measurement (problem, environment, run, variant, first_operator, "
          "last_operator,"
          " hand_written, schedule, source_hash, layouts, data, cache_mode, protocol, outcome, message,"
          " median_us, mad_us, min_us, sample_count, samples, dropped, norm_error, worst_error, owner,"
          " attempts, abandoned, repeat_command, created) VALUES (") +
          kProblemId + ", " + kEnvironmentId +
          ", :run, :variant, :first, :last, :hand_written, :schedule, :source_hash, :layouts, :data, "
          ":cache_mode,"
          " :protocol, :outcome, :message, :median_us, :mad_us, :min_us, :sample_count, :samples, :dropped,"
          " :norm_error, :worst_error, :owner, :attempts, :abandoned, :repeat_command, :created)"
          " ON CONFLICT (problem, environment, variant, source_hash, layouts, data, cache_mode, protocol) DO "
          "UPDATE SET"
          " run = excluded.run, schedule = excluded.schedule, outcome = excluded.outcome, message = "
          "excluded.message,"
          " median_us = excluded.median_us, mad_us = excluded.mad_us, min_us = excluded.min_us,"
          " sample_count = excluded.sample_count, samples = excluded.samples, dropped = excluded.dropped,"
          " norm_error = excluded.norm_error, worst_error = excluded.worst_error, owner = excluded.owner,"
          " attempts = excluded.attempts, abandoned = excluded.abandoned,"
          " repeat_command = excluded.repeat_command, created = excluded.created");
  bind_key(statement, record.key);
  bind_run(statement, record.run);
  statement.bind(":first", variant.segment.first);
  statement.bind(":last", variant.segment.last);
  statement.bind(":hand_written", variant.hand_written ? 1 : 0);
  statement.bind(":schedule", record.schedule);
  statement.bind(":outcome",
                 row.started ? std::string(kStarted) : std::string(measure::name(measurement.outcome)));
  statement.bind(":message", measurement.message);
  bind_time(statement, measurement);
  if (measurement.outcome == measure::Outcome::ok) {
    statement.bind(":samples", to_json(measurement.samples_us));
  } else {
    statement.bind(":samples");
  }
  statement.bind(":dropped", measurement.dropped);
  bind_number(statement, ":norm_error", measurement.norm_error, !row.started);
  bind_number(statement, ":worst_error", measurement.worst_error, !row.started);
  statement.bind(":owner", row.owner);
  statement.bind(":attempts", record.attempts);
  statement.bind(":abandoned", record.abandoned);
  statement.bind(":repeat_command", record.repeat_command);
  statement.bind(":created", record.created > 0 ? record.created : now());
  statement.exec();
}

bool claim_is_dead(const SegmentRow& row) {
  switch (life_of(row.owner)) {
    case Life::alive:
      return false;
    case Life::dead:
      return true;
    case Life::unknown:
      return now() - row.record.created > kForeignClaimSeconds;
  }
  return false;
}

SegmentRow as_crashed(SegmentRow row) {
  row.started = false;
  row.record.measurement = {};
  row.record.measurement.outcome = measure::Outcome::crashed;
  row.record.measurement.message = kAbandonedMessage;
  ++row.record.abandoned;
  return row;
}

/// Number of this row in plan_measurement after it was inserted or replaced.
std::int64_t write_plan(SQLite::Database& database, const PlanRecord& plan, std::int64_t run) {
  require_valid(plan.measurement);
  SQLite::Statement statement(
      database,
      std::string(
          "INSERT INTO plan_measurement (problem, environment, run, mask, typed_mask, schedules, "
          "sources_hash,"
          " data, cache_mode, protocol, outcome, message, median_us, mad_us, min_us, sample_count, sum_us,"
          " created) VALUES (") +
          kProblemId + ", " + kEnvironmentId +
          ", :run, :mask, :typed_mask, :schedules, :sources_hash, :data, :cache_mode, :protocol, :outcome, "
          ":message,"
          " :median_us, :mad_us, :min_us, :sample_count, :sum_us, :created)"
          " ON CONFLICT (problem, environment, mask, sources_hash, data, cache_mode, protocol) DO UPDATE SET"
          " run = excluded.run, typed_mask = coalesce(excluded.typed_mask, typed_mask), schedules = "
          "excluded.schedules,"
          " outcome = excluded.outcome, message = excluded.message, median_us = excluded.median_us,"
          " mad_us = excluded.mad_us, min_us = excluded.min_us, sample_count = excluded.sample_count,"
          " sum_us = coalesce(excluded.sum_us, sum_us), created = excluded.created RETURNING id");
  statement.bind(":problem", plan.problem);
  statement.bind(":environment", plan.environment);
  bind_run(statement, run);
  statement.bind(":mask", static_cast<int>(plan.mask));
  if (plan.typed_mask) {
    statement.bind(":typed_mask", static_cast<int>(*plan.typed_mask));
  } else {
    statement.bind(":typed_mask");
  }
  statement.bind(":schedules", to_json(plan.schedules));
  statement.bind(":sources_hash", plan.sources_hash);
  statement.bind(":data", plan.data);
  statement.bind(":cache_mode", plan.cache_mode);
  statement.bind(":protocol", plan.protocol);
  statement.bind(":outcome", std::string(measure::name(plan.measurement.outcome)));
  statement.bind(":message", plan.measurement.message);
  bind_time(statement, plan.measurement);
  bind_number(statement, ":sum_us", plan.sum_us, plan.sum_us > 0);
  statement.bind(":created", now());
  statement.executeStep();
  const std::int64_t id = statement.getColumn(0).getInt64();
  statement.reset();
  return id;
}

void write_comparison(SQLite::Database& database, std::int64_t run, int position, std::int64_t plan,
                      std::int64_t baseline, const ComparisonRecord& comparison) {
  const measure::Measurement& measurement = comparison.plan.measurement;
  const bool ok = measurement.outcome == measure::Outcome::ok;
  SQLite::Statement statement(database,
                              "INSERT INTO comparison (run, position, plan, baseline, outcome, message, "
                              "ratio, low, high, pairs, median_us,"
                              " mad_us, min_us, sample_count, whole_over_sum, whole_over_sum_low,"
                              " whole_over_sum_high) VALUES (:run, :position, :plan, :baseline, "
                              ":outcome, :message, :ratio, :low,"
                              " :high, :pairs, :median_us, :mad_us, :min_us, :sample_count, :whole_over_sum,"
                              " :whole_over_sum_low, :whole_over_sum_high)");
  bind_run(statement, run);
  statement.bind(":position", position);
  statement.bind(":plan", plan);
  statement.bind(":baseline", baseline);
  statement.bind(":outcome", std::string(measure::name(measurement.outcome)));
  statement.bind(":message", measurement.message);
  bind_number(statement, ":ratio", comparison.ratio, ok);
  bind_number(statement, ":low", comparison.low, ok);
  bind_number(statement, ":high", comparison.high, ok);
  statement.bind(":pairs", comparison.pairs);
  const auto parts = comparison.whole_over_sum.value_or(ComparisonRecord::WholeOverSum{});
  bind_number(statement, ":whole_over_sum", parts.ratio, comparison.whole_over_sum.has_value());
  bind_number(statement, ":whole_over_sum_low", parts.low, comparison.whole_over_sum.has_value());
  bind_number(statement, ":whole_over_sum_high", parts.high, comparison.whole_over_sum.has_value());
  bind_time(statement, measurement);
  statement.exec();
}

/// Of an interval. Too few pairs for one are stored as NULL: it could be anything.
double upper_limit(SQLite::Statement& row, const char* name) {
  const SQLite::Column high = row.getColumn(name);
  return high.isNull() ? std::numeric_limits<double>::infinity() : high.getDouble();
}

ComparisonRecord read_comparison(SQLite::Statement& row) {
  ComparisonRecord comparison;
  PlanRecord& plan = comparison.plan;
  plan.problem = row.getColumn("problem_key").getString();
  plan.environment = row.getColumn("fingerprint").getString();
  plan.mask = static_cast<std::uint16_t>(row.getColumn("mask").getInt());
  if (!row.getColumn("typed_mask").isNull()) {
    plan.typed_mask = static_cast<std::uint16_t>(row.getColumn("typed_mask").getInt());
  }
  plan.schedules = texts_from_json(row.getColumn("schedules").getString());
  plan.sources_hash = row.getColumn("sources_hash").getString();
  plan.data = row.getColumn("data").getString();
  plan.cache_mode = row.getColumn("cache_mode").getString();
  plan.protocol = row.getColumn("protocol");
  plan.sum_us = row.getColumn("sum_us").getDouble();
  plan.measurement.outcome = measure::parse_outcome(row.getColumn("outcome").getString());
  plan.measurement.message = row.getColumn("message").getString();
  comparison.pairs = row.getColumn("pairs");
  if (plan.measurement.outcome == measure::Outcome::ok) {
    plan.measurement.time = read_time(row);
    comparison.ratio = row.getColumn("ratio").getDouble();
    comparison.low = row.getColumn("low").getDouble();
    comparison.high = upper_limit(row, "high");
    if (!row.getColumn("whole_over_sum").isNull()) {
      comparison.whole_over_sum = {row.getColumn("whole_over_sum").getDouble(),
                                   row.getColumn("whole_over_sum_low").getDouble(),
                                   upper_limit(row, "whole_over_sum_high")};
    }
  }
  return comparison;
}

RunState parse_run_state(const std::string& text) {
  for (const RunState state :
       {RunState::running, RunState::finished, RunState::interrupted, RunState::failed}) {
    if (text == name(state)) return state;
  }
  throw DamagedFile("a search run in the tuning database has the unknown state `" + text +
                    "`; run `fusetune db check`");
}

/// Rows whose operators are not those of their variant number, or whose samples are not as many as they say.
void check_segments(SQLite::Database& database, std::vector<std::string>& problems) {
  SQLite::Statement statement(database,
                              "SELECT id, variant, first_operator, last_operator, hand_written, sample_count,"
                              " json_array_length(samples) AS samples FROM segment_measurement");
  while (statement.executeStep()) {
    const std::string row = "segment_measurement row " + statement.getColumn("id").getString() + ": ";
    const plan::SegmentVariant stored{
        {statement.getColumn("first_operator"), statement.getColumn("last_operator")},
        statement.getColumn("hand_written").getInt() != 0};
    const int variant = statement.getColumn("variant");
    const std::span<const plan::SegmentVariant> all = plan::all_variants();
    if (variant < 0 || variant >= static_cast<int>(all.size()) ||
        all[static_cast<std::size_t>(variant)] != stored) {
      problems.push_back(row + "variant " + std::to_string(variant) + " is not " + stored.to_string());
    }
    const SQLite::Column samples = statement.getColumn("samples");
    if (!samples.isNull() && samples.getInt() > 0 &&
        samples.getInt() != statement.getColumn("sample_count").getInt()) {
      problems.push_back(row + "holds " + samples.getString() + " samples, not sample_count");
    }
  }
}

void check_plans(SQLite::Database& database, std::vector<std::string>& problems) {
  SQLite::Statement statement(database, "SELECT id, mask FROM plan_measurement");
  while (statement.executeStep()) {
    const plan::FusionMask mask{static_cast<std::uint16_t>(statement.getColumn("mask").getInt())};
    if (plan::FusionPlan::from_mask(mask).canonical_mask() == mask) continue;
    problems.push_back("plan_measurement row " + statement.getColumn("id").getString() + ": mask " +
                       std::to_string(mask.value) + " is not canonical");
  }
}

}  // namespace

bool may_retry(const TuningRecord& record) {
  switch (record.measurement.outcome) {
    case measure::Outcome::noisy:
      return record.attempts < kNoisyAttempts;
    case measure::Outcome::crashed:
      return record.abandoned == 1 && record.attempts == 1;
    default:
      return false;
  }
}

std::string_view sqlite_version() { return SQLite::getLibVersion(); }

std::string_view name(RunState state) {
  switch (state) {
    case RunState::running:
      return "running";
    case RunState::finished:
      return "finished";
    case RunState::interrupted:
      return "interrupted";
    case RunState::failed:
      return "failed";
  }
  throw base::InternalError("unknown run state");
}

struct TuningStore::Impl {
  Connection connection;
  std::string self = this_process();
  std::vector<SegmentRow> replaced = {};  // what our claims stand in the place of
};

TuningStore::TuningStore(const std::filesystem::path& path, const StoreOptions& options)
    : impl_(new Impl{Connection(path, options)}) {}
TuningStore::~TuningStore() = default;
TuningStore::TuningStore(TuningStore&&) noexcept = default;

const std::filesystem::path& TuningStore::path() const { return impl_->connection.path(); }

std::int64_t TuningStore::begin_run(const std::string& problem, const EnvironmentRecord& environment,
                                    const std::string& options_json) {
  std::int64_t id = 0;
  impl_->connection.writing("starting a search", [&](SQLite::Database& database) {
    SQLite::Statement add_problem(database, "INSERT INTO problem (key) VALUES (?) ON CONFLICT DO NOTHING");
    add_problem.bind(1, problem);
    add_problem.exec();
    SQLite::Statement add_environment(database,
                                      "INSERT INTO environment (fingerprint, fields) VALUES (?, ?)"
                                      " ON CONFLICT (fingerprint) DO UPDATE SET fields = excluded.fields");
    add_environment.bind(1, environment.fingerprint);
    add_environment.bind(2, to_json(environment.fields));
    add_environment.exec();
    SQLite::Statement add_run(
        database,
        std::string(
            "INSERT INTO search_run (problem, environment, state, owner, started, options) VALUES (") +
            kProblemId + ", " + kEnvironmentId + ", 'running', :owner, :started, :options)");
    add_run.bind(":problem", problem);
    add_run.bind(":environment", environment.fingerprint);
    add_run.bind(":owner", impl_->self);
    add_run.bind(":started", now());
    add_run.bind(":options", options_json);
    add_run.exec();
    id = database.getLastInsertRowid();
  });
  return id;
}

void TuningStore::finish_run(std::int64_t run, RunState state, const std::string& result_json,
                             const std::string& finalists_hash) {
  impl_->connection.writing("finishing a search", [&](SQLite::Database& database) {
    SQLite::Statement statement(
        database,
        "UPDATE search_run SET state = ?, finished = max(started, ?), result = nullif(?, ''),"
        " finalists_hash = nullif(?, '') WHERE id = ?");
    statement.bind(1, std::string(name(state)));
    statement.bind(2, now());
    statement.bind(3, result_json);
    statement.bind(4, finalists_hash);
    statement.bind(5, run);
    if (statement.exec() != 1)
      throw base::InternalError("no search run " + std::to_string(run) + " to finish");
  });
}

std::vector<RunRecord> TuningStore::runs() const {
  std::vector<RunRecord> result;
  impl_->connection.reading("listing searches", [&](SQLite::Database& database) {
    SQLite::Statement row(database,
                          "SELECT r.*, p.key AS problem_key, e.fingerprint AS fingerprint FROM search_run r"
                          " JOIN problem p ON p.id = r.problem JOIN environment e ON e.id = r.environment"
                          " ORDER BY r.id DESC");
    while (row.executeStep()) {
      RunRecord& run = result.emplace_back();
      run.id = row.getColumn("id").getInt64();
      run.problem = row.getColumn("problem_key").getString();
      run.environment = row.getColumn("fingerprint").getString();
      run.state = parse_run_state(row.getColumn("state").getString());
      run.started = row.getColumn("started").getInt64();
      if (!row.getColumn("finished").isNull()) run.finished = row.getColumn("finished").getInt64();
      run.options = row.getColumn("options").getString();
      run.finalists_hash = row.getColumn("finalists_hash").getString();
      run.result = row.getColumn("result").getString();
    }
  });
  return result;
}

int TuningStore::recover_abandoned() {
  int recovered = 0;
  impl_->connection.writing("recovering interrupted searches", [&](SQLite::Database& database) {
    std::vector<SegmentRow> dead;
    SQLite::Statement started(database, std::string(kSelectSegments) + "s.outcome = 'started'");
    while (started.executeStep()) {
      SegmentRow row = read_segment(started);
      if (claim_is_dead(row)) dead.push_back(std::move(row));
    }
    started.reset();
    for (SegmentRow& row : dead) write_segment(database, as_crashed(std::move(row)));
    recovered = static_cast<int>(dead.size());

    std::vector<std::int64_t> dead_runs;
    SQLite::Statement running(database, "SELECT id, owner FROM search_run WHERE state = 'running'");
    while (running.executeStep()) {
      if (life_of(running.getColumn(1).getString()) == Life::dead)
        dead_runs.push_back(running.getColumn(0).getInt64());
    }
    running.reset();
    for (const std::int64_t run : dead_runs) {
      SQLite::Statement interrupt(database, "UPDATE search_run SET state = 'interrupted' WHERE id = ?");
      interrupt.bind(1, run);
      interrupt.exec();
    }
  });
  return recovered;
}

Claim TuningStore::claim(const TuningRecord& candidate, ClaimPolicy policy) {
  Claim claim;
  impl_->connection.writing("claiming a candidate", [&](SQLite::Database& database) {
    std::optional<SegmentRow> row = select_segment(database, candidate.key);
    if (row && row->started && row->owner != impl_->self) {
      if (!claim_is_dead(*row)) {
        claim.state = Claim::State::held;
        return;
      }
      row = as_crashed(std::move(*row));
      write_segment(database, *row);
    }
    const bool answered = row && !row->started;
    const bool again = answered && (policy == ClaimPolicy::fresh ||
                                    (policy == ClaimPolicy::retry && may_retry(row->record)));
    if (answered && !again) {
      claim = {Claim::State::measured, std::move(row->record)};
      return;
    }
    SegmentRow started{candidate, true, impl_->self};
    started.record.measurement = {};
    started.record.created = now();
    if (answered) impl_->replaced.push_back(*row);
    const bool continues = row && policy != ClaimPolicy::fresh;
    started.record.attempts = continues ? row->record.attempts + 1 : 1;
    started.record.abandoned = continues ? row->record.abandoned : 0;
    write_segment(database, started);
  });
  return claim;
}

void TuningStore::record(const TuningRecord& result) {
  require_valid(result.measurement);
  impl_->connection.writing("saving a measurement", [&](SQLite::Database& database) {
    SegmentRow row{result, false, impl_->self};
    // How often it was tried is the claim's knowledge, not the caller's.
    if (const std::optional<SegmentRow> claimed = select_segment(database, result.key)) {
      row.record.attempts = claimed->record.attempts;
      row.record.abandoned = claimed->record.abandoned;
    }
    write_segment(database, row);
    std::erase_if(impl_->replaced, [&](const SegmentRow& old) { return old.record.key == result.key; });
  });
}

void TuningStore::release(const SegmentKey& key) {
  impl_->connection.writing("giving up a candidate", [&](SQLite::Database& database) {
    const std::optional<SegmentRow> row = select_segment(database, key);
    if (!row || !row->started || row->owner != impl_->self) return;
    const auto replaced = std::find_if(impl_->replaced.begin(), impl_->replaced.end(),
                                       [&](const SegmentRow& old) { return old.record.key == key; });
    if (replaced != impl_->replaced.end()) {
      write_segment(database, *replaced);
      impl_->replaced.erase(replaced);
      return;
    }
    SQLite::Statement statement(database, "DELETE FROM segment_measurement AS s WHERE " + key_condition());
    bind_key(statement, key);
    statement.exec();
  });
}

std::optional<TuningRecord> TuningStore::find(const SegmentKey& key) const {
  std::optional<TuningRecord> result;
  impl_->connection.reading("looking up a measurement", [&](SQLite::Database& database) {
    std::optional<SegmentRow> row = select_segment(database, key);
    if (row && !row->started) result = std::move(row->record);
  });
  return result;
}

std::vector<TuningRecord> TuningStore::records(const std::string& problem, const std::string& environment,
                                               const std::string& cache_mode) const {
  std::vector<TuningRecord> result;
  impl_->connection.reading("reading measurements", [&](SQLite::Database& database) {
    SQLite::Statement statement(database, std::string(kSelectSegments) +
                                              "p.key = ? AND e.fingerprint = ? AND s.cache_mode = ?"
                                              " AND s.outcome <> 'started' ORDER BY s.id");
    statement.bind(1, problem);
    statement.bind(2, environment);
    statement.bind(3, cache_mode);
    while (statement.executeStep()) result.push_back(read_segment(statement).record);
  });
  return result;
}

std::optional<std::string> TuningStore::best_schedule(const std::string& problem,
                                                      const std::string& environment,
                                                      const std::string& cache_mode, int variant) const {
  std::optional<std::string> schedule;
  impl_->connection.reading("looking up the best schedule", [&](SQLite::Database& database) {
    SQLite::Statement statement(
        database,
        "SELECT s.schedule FROM segment_measurement s JOIN problem p ON p.id = s.problem"
        " JOIN environment e ON e.id = s.environment WHERE p.key = ? AND e.fingerprint = ?"
        " AND s.cache_mode = ? AND s.variant = ? AND s.outcome = 'ok'"
        " ORDER BY s.protocol DESC, s.median_us, s.schedule LIMIT 1");
    statement.bind(1, problem);
    statement.bind(2, environment);
    statement.bind(3, cache_mode);
    statement.bind(4, variant);
    if (statement.executeStep()) schedule = statement.getColumn(0).getString();
  });
  return schedule;
}

void TuningStore::record_plan(const PlanRecord& plan, std::int64_t run) {
  impl_->connection.writing("saving a plan's measurement",
                            [&](SQLite::Database& database) { write_plan(database, plan, run); });
}

void TuningStore::record_finalists(std::int64_t run, std::span<const ComparisonRecord> finalists) {
  impl_->connection.writing("saving the finalists", [&](SQLite::Database& database) {
    SQLite::Statement clear(database, "DELETE FROM comparison WHERE run = ?");
    clear.bind(1, run);
    clear.exec();
    std::int64_t baseline = 0;
    for (std::size_t i = 0; i < finalists.size(); ++i) {
      const std::int64_t plan = write_plan(database, finalists[i].plan, run);
      if (i == 0) baseline = plan;
      write_comparison(database, run, static_cast<int>(i), plan, baseline, finalists[i]);
    }
  });
}

std::optional<std::vector<ComparisonRecord>> TuningStore::find_finalists(
    const std::string& finalists_hash) const {
  std::vector<ComparisonRecord> finalists;
  impl_->connection.reading("looking up the finalists", [&](SQLite::Database& database) {
    SQLite::Statement statement(
        database,
        "SELECT c.*, m.mask, m.typed_mask, m.schedules, m.sources_hash, m.data, m.cache_mode, m.protocol, "
        "m.sum_us,"
        " p.key AS problem_key, e.fingerprint AS fingerprint FROM comparison c"
        " JOIN plan_measurement m ON m.id = c.plan JOIN problem p ON p.id = m.problem"
        " JOIN environment e ON e.id = m.environment WHERE c.run ="
        " (SELECT max(id) FROM search_run WHERE finalists_hash = ? AND state = 'finished'"
        "  AND id IN (SELECT run FROM comparison)) ORDER BY c.position");
    statement.bind(1, finalists_hash);
    while (statement.executeStep()) finalists.push_back(read_comparison(statement));
  });
  if (finalists.empty()) return std::nullopt;
  return finalists;
}

StoreStats TuningStore::stats() const {
  StoreStats stats;
  impl_->connection.reading("counting rows", [&](SQLite::Database& database) {
    const auto count = [&](const char* table) {
      return database.execAndGet(std::string("SELECT count(*) FROM ") + table).getInt64();
    };
    stats.problems = count("problem");
    stats.environments = count("environment");
    stats.runs = count("search_run");
    stats.plans = count("plan_measurement");
    stats.comparisons = count("comparison");
    stats.schema_version = database.execAndGet("PRAGMA user_version").getInt();
    SQLite::Statement outcomes(database,
                               "SELECT outcome, count(*) FROM segment_measurement GROUP BY outcome");
    while (outcomes.executeStep()) {
      stats.segments_by_outcome[outcomes.getColumn(0).getString()] = outcomes.getColumn(1).getInt64();
    }
  });
  std::error_code ignored;
  stats.bytes = static_cast<std::int64_t>(std::filesystem::file_size(path(), ignored));
  stats.journal_mode = impl_->connection.journal_mode();
  return stats;
}

std::vector<std::string> TuningStore::check() const {
  std::vector<std::string> problems;
  impl_->connection.reading("checking", [&](SQLite::Database& database) {
    SQLite::Statement integrity(database, "PRAGMA integrity_check");
    while (integrity.executeStep()) {
      if (const std::string line = integrity.getColumn(0).getString(); line != "ok") problems.push_back(line);
    }
    SQLite::Statement foreign(database, "PRAGMA foreign_key_check");
    while (foreign.executeStep()) {
      problems.push_back(foreign.getColumn(0).getString() + " row " + foreign.getColumn(1).getString() +
                         ": refers to a row of " + foreign.getColumn(2).getString() + " that is not there");
    }
    check_segments(database, problems);
    check_plans(database, problems);
  });
  return problems;
}

}  // namespace fusetune::store
