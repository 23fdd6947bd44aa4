#include "store/rows.h"

#include <array>
#include <chrono>
#include <cmath>

#include "base/error.h"
#include "store/json_text.h"
#include "store/process_identity.h"

namespace fusetune::store {
namespace {

/// A claim whose process cannot be looked up (another machine or container) is given up after this long:
/// several times what checking and timing one candidate may take.
constexpr std::int64_t kForeignClaimSeconds = 900;
constexpr const char* kStarted = "started";

constexpr const char* kAbandonedMessage =
    "the searching process ended while this candidate ran: it was killed, or the candidate brought the "
    "machine down";

constexpr std::array<std::string_view, 21> kTrialColumns = {
    "run",         "outcome",        "message",         "median_us",    "mad_us",
    "min_us",      "sample_count",   "samples",         "dropped",      "owner",
    "attempts",    "repeat_command", "compile_limit_s", "run_limit_s",  "norm_error",
    "worst_error", "abandoned",      "created",         "reference_us", "slowdown",
    "device_uuid"};

bool is_time(double us) { return std::isfinite(us) && us > 0; }

}  // namespace

std::int64_t now() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(since).count();
}

void require_valid(const measure::Measurement& measurement) {
  if (measurement.outcome != measure::Outcome::ok) return;
  const measure::TimingSummary& time = measurement.time;
  bool valid = is_time(time.median_us) && is_time(time.min_us) && std::isfinite(time.mad_us) &&
               time.mad_us >= 0 && time.count >= 1;
  if (measurement.reference_us > 0)
    valid = valid && is_time(measurement.reference_us) && is_time(measurement.slowdown);
  for (const double sample : measurement.samples_us) valid = valid && is_time(sample);
  if (!valid)
    throw base::InternalError("an `ok` measurement without a finite, positive time must not be stored");
}

std::string upsert_sql(std::string_view table, std::span<const std::string_view> key,
                       std::span<const std::string_view> values) {
  std::string columns, parameters, unique, update;
  const auto add = [&](std::string_view column) {
    columns.append(", ").append(column);
    parameters.append(", :").append(column);
  };
  const auto add_value = [&](std::string_view column) {
    add(column);
    update.append(update.empty() ? "" : ", ").append(column).append(" = excluded.").append(column);
  };
  for (const std::string_view column : key) {
    add(column);
    unique.append(", ").append(column);
  }
  for (const std::string_view column : values) add_value(column);
  for (const std::string_view column : kTrialColumns) add_value(column);
  return "INSERT INTO " + std::string(table) + " (problem, environment" + columns + ") VALUES (" +
         kProblemId + ", " + kEnvironmentId + parameters + ") ON CONFLICT (problem, environment" + unique +
         ") DO UPDATE SET " + update + " RETURNING id";
}

std::string key_condition(std::span<const std::string_view> key) {
  std::string text = std::string("s.problem = ") + kProblemId + " AND s.environment = " + kEnvironmentId;
  for (const std::string_view column : key)
    text.append(" AND s.").append(column).append(" = :").append(column);
  return text;
}

void bind_number(SQLite::Statement& statement, const char* name, double value, bool present) {
  if (present && std::isfinite(value)) {
    statement.bind(name, value);
  } else {
    statement.bind(name);
  }
}

void bind_run(SQLite::Statement& statement, std::int64_t run) {
  if (run > 0) {
    statement.bind(":run", run);
  } else {
    statement.bind(":run");
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

void bind_device(SQLite::Statement& statement, const measure::Measurement& measurement) {
  if (measurement.device_uuid.empty()) {
    statement.bind(":device_uuid");
  } else {
    statement.bind(":device_uuid", measurement.device_uuid);
  }
}

void bind_trial(SQLite::Statement& statement, const Trial& trial, bool started, const std::string& owner) {
  const measure::Measurement& measurement = trial.measurement;
  bind_run(statement, trial.run);
  statement.bind(":outcome",
                 started ? std::string(kStarted) : std::string(measure::name(measurement.outcome)));
  statement.bind(":message", measurement.message);
  bind_time(statement, measurement);
  if (measurement.outcome == measure::Outcome::ok) {
    statement.bind(":samples", to_json(measurement.samples_us));
  } else {
    statement.bind(":samples");
  }
  statement.bind(":dropped", measurement.dropped);
  bind_number(statement, ":norm_error", measurement.norm_error, !started);
  bind_number(statement, ":worst_error", measurement.worst_error, !started);
  const bool beside_reference = measurement.reference_us > 0;
  bind_number(statement, ":reference_us", measurement.reference_us, beside_reference);
  bind_number(statement, ":slowdown", measurement.slowdown, beside_reference);
  bind_device(statement, measurement);
  statement.bind(":owner", owner);
  statement.bind(":attempts", trial.attempts);
  statement.bind(":abandoned", trial.abandoned);
  statement.bind(":repeat_command", trial.repeat_command);
  bind_number(statement, ":compile_limit_s", trial.limits.compile_s, trial.limits.compile_s > 0);
  bind_number(statement, ":run_limit_s", trial.limits.run_s, trial.limits.run_s > 0);
  statement.bind(":created", trial.created > 0 ? trial.created : now());
}

measure::TimingSummary read_time(SQLite::Statement& row) {
  return {row.getColumn("median_us").getDouble(), row.getColumn("mad_us").getDouble(),
          row.getColumn("min_us").getDouble(), row.getColumn("sample_count").getInt()};
}

bool read_trial(SQLite::Statement& row, Trial& trial, std::string& owner) {
  trial.repeat_command = row.getColumn("repeat_command").getString();
  trial.limits = {row.getColumn("compile_limit_s").getDouble(), row.getColumn("run_limit_s").getDouble()};
  trial.attempts = row.getColumn("attempts");
  trial.abandoned = row.getColumn("abandoned");
  trial.run = row.getColumn("run").getInt64();
  trial.created = row.getColumn("created").getInt64();
  owner = row.getColumn("owner").getString();
  const std::string outcome = row.getColumn("outcome").getString();
  const bool started = outcome == kStarted;
  measure::Measurement& measurement = trial.measurement;
  measurement.outcome = started ? measure::Outcome::skipped : measure::parse_outcome(outcome);
  measurement.message = row.getColumn("message").getString();
  measurement.dropped = row.getColumn("dropped");
  measurement.norm_error = row.getColumn("norm_error").getDouble();
  measurement.worst_error = row.getColumn("worst_error").getDouble();
  measurement.reference_us = row.getColumn("reference_us").getDouble();
  if (measurement.reference_us > 0) measurement.slowdown = row.getColumn("slowdown").getDouble();
  measurement.device_uuid = row.getColumn("device_uuid").getString();
  if (measurement.outcome == measure::Outcome::ok) {
    measurement.time = read_time(row);
    // Version 1 kept no samples of plans.
    if (const SQLite::Column samples = row.getColumn("samples"); !samples.isNull())
      measurement.samples_us = numbers_from_json(samples.getString());
  }
  return started;
}

bool claim_is_dead(std::string_view owner, std::int64_t created) {
  switch (life_of(owner)) {
    case Life::alive:
      return false;
    case Life::dead:
      return true;
    case Life::unknown:
      return now() - created > kForeignClaimSeconds;
  }
  return false;
}

void make_crashed(Trial& trial) {
  trial.measurement = {};
  trial.measurement.outcome = measure::Outcome::crashed;
  trial.measurement.message = kAbandonedMessage;
  ++trial.abandoned;
}

void check_samples(SQLite::Statement& statement, const std::string& row, std::vector<std::string>& problems) {
  const SQLite::Column samples = statement.getColumn("samples");
  if (samples.isNull() || samples.getInt() == 0) return;  // none were kept
  if (samples.getInt() != statement.getColumn("sample_count").getInt())
    problems.push_back(row + "holds " + samples.getString() + " samples, not sample_count");
}

}  // namespace fusetune::store
