#include "store/tuning_store.h"

#include <SQLiteCpp/SQLiteCpp.h>

#include <system_error>

#include "base/error.h"
#include "store/claims.h"
#include "store/comparison_rows.h"
#include "store/database.h"
#include "store/process_identity.h"
#include "store/run_rows.h"

namespace fusetune::store {
namespace {

void bind_reference(SQLite::Statement& statement, const std::string& problem, const std::string& environment,
                    const std::string& cache_mode, const std::string& settings) {
  statement.bind(":problem", problem);
  statement.bind(":environment", environment);
  statement.bind(":cache_mode", cache_mode);
  statement.bind(":settings", settings);
}

std::optional<double> agreed_reference_time(SQLite::Database& database, const std::string& problem,
                                            const std::string& environment, const std::string& cache_mode,
                                            const std::string& settings) {
  SQLite::Statement statement(database,
                              "SELECT time_us FROM reference_time WHERE problem = :problem AND environment ="
                              " :environment AND cache_mode = :cache_mode AND settings = :settings");
  bind_reference(statement, problem, environment, cache_mode, settings);
  return statement.executeStep() ? std::optional(statement.getColumn(0).getDouble()) : std::nullopt;
}

}  // namespace

std::string_view sqlite_version() { return SQLite::getLibVersion(); }

struct TuningStore::Impl {
  Connection connection;
  std::string self = this_process();
  Replaced<TuningRecord> replaced_segments = {};
  Replaced<PlanRecord> replaced_plans = {};
};

TuningStore::TuningStore(const std::filesystem::path& path, const StoreOptions& options)
    : impl_(new Impl{Connection(path, options)}) {}
TuningStore::~TuningStore() = default;
TuningStore::TuningStore(TuningStore&&) noexcept = default;

const Connection& TuningStore::connection() const { return impl_->connection; }
const std::filesystem::path& TuningStore::path() const { return impl_->connection.path(); }

std::int64_t TuningStore::begin_run(const std::string& problem, const EnvironmentRecord& environment,
                                    const std::string& options_json) {
  std::int64_t id = 0;
  impl_->connection.writing("starting a search", [&](SQLite::Database& database) {
    add_problem(database, problem);
    add_environment(database, environment);
    RunRecord run;
    run.problem = problem;
    run.environment = environment.fingerprint;
    run.started = now();
    run.options = options_json;
    id = add_run(database, run, impl_->self);
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
  impl_->connection.reading("listing searches",
                            [&](SQLite::Database& database) { result = all_runs(database); });
  return result;
}

int TuningStore::recover_abandoned() {
  int recovered = 0;
  impl_->connection.writing("recovering interrupted searches", [&](SQLite::Database& database) {
    recovered = settle_dead(database, started_segments(database));
    recovered += settle_dead(database, started_plans(database));
    interrupt_dead_runs(database);
  });
  return recovered;
}

Claim TuningStore::claim(const TuningRecord& candidate, ClaimPolicy policy) {
  Claim claim;
  impl_->connection.writing("claiming a candidate", [&](SQLite::Database& database) {
    claim = claim_row(database, impl_->self, impl_->replaced_segments, candidate, policy);
  });
  return claim;
}

void TuningStore::record(const TuningRecord& result) {
  require_valid(result.measurement);
  impl_->connection.writing("saving a measurement", [&](SQLite::Database& database) {
    record_row(database, impl_->self, impl_->replaced_segments, result);
  });
}

void TuningStore::release(const SegmentKey& key) {
  impl_->connection.writing("giving up a claim", [&](SQLite::Database& database) {
    release_row(database, impl_->self, impl_->replaced_segments, key);
  });
}

std::optional<TuningRecord> TuningStore::find(const SegmentKey& key) const {
  std::optional<TuningRecord> result;
  impl_->connection.reading("looking up a measurement", [&](SQLite::Database& database) {
    std::optional<SegmentRow> row = select_row(database, key);
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

std::optional<std::string> TuningStore::best_schedule(
    const std::string& problem, const std::string& environment, const MeasuredLike& like, int variant,
    const std::function<bool(const std::string&, const std::string&)>& usable) const {
  std::optional<std::string> schedule;
  impl_->connection.reading("looking up the best schedule", [&](SQLite::Database& database) {
    SQLite::Statement statement(
        database,
        "SELECT s.schedule, s.source_hash FROM segment_measurement s JOIN problem p ON p.id = s.problem"
        " JOIN environment e ON e.id = s.environment WHERE p.key = :problem AND e.fingerprint = :environment"
        " AND s.cache_mode = :cache_mode AND s.variant = :variant AND s.outcome = 'ok'"
        " ORDER BY s.data = :data DESC, (s.settings = :settings OR"
        " s.settings LIKE :settings || ' reference=%') DESC, s.protocol DESC, s.median_us, s.schedule");
    statement.bind(":problem", problem);
    statement.bind(":environment", environment);
    statement.bind(":cache_mode", like.cache_mode);
    statement.bind(":variant", variant);
    statement.bind(":data", like.data);
    statement.bind(":settings", like.settings);
    while (!schedule && statement.executeStep()) {
      std::string found = statement.getColumn(0).getString();
      if (!usable || usable(found, statement.getColumn(1).getString())) schedule = std::move(found);
    }
  });
  return schedule;
}

std::optional<double> TuningStore::reference_time(const std::string& problem, const std::string& environment,
                                                  const std::string& cache_mode,
                                                  const std::string& settings) const {
  std::optional<double> time_us;
  impl_->connection.reading("looking up the reference's time", [&](SQLite::Database& database) {
    time_us = agreed_reference_time(database, problem, environment, cache_mode, settings);
    if (time_us) return;
    const std::string oldest_of =
        " JOIN problem p ON p.id = s.problem JOIN environment e ON e.id = s.environment WHERE p.key = "
        ":problem"
        " AND e.fingerprint = :environment AND s.cache_mode = :cache_mode AND s.settings = :settings"
        " AND s.reference_us IS NOT NULL";
    SQLite::Statement statement(database, "SELECT s.reference_us, s.created FROM segment_measurement s" +
                                              oldest_of +
                                              " UNION ALL SELECT s.reference_us, s.created FROM"
                                              " plan_measurement s" +
                                              oldest_of + " ORDER BY created LIMIT 1");
    bind_reference(statement, problem, environment, cache_mode, settings);
    if (statement.executeStep()) time_us = statement.getColumn(0).getDouble();
  });
  return time_us;
}

double TuningStore::agree_on_reference_time(const std::string& problem, const std::string& environment,
                                            const std::string& cache_mode, const std::string& settings,
                                            double time_us) {
  double agreed = time_us;
  impl_->connection.writing("agreeing on the reference's time", [&](SQLite::Database& database) {
    SQLite::Statement statement(
        database,
        "INSERT OR IGNORE INTO reference_time (problem, environment, cache_mode, settings,"
        " time_us) VALUES (:problem, :environment, :cache_mode, :settings, :time_us)");
    bind_reference(statement, problem, environment, cache_mode, settings);
    statement.bind(":time_us", time_us);
    statement.exec();
    agreed = agreed_reference_time(database, problem, environment, cache_mode, settings).value_or(time_us);
  });
  return agreed;
}

PlanClaim TuningStore::claim_plan(const PlanRecord& candidate, ClaimPolicy policy) {
  PlanClaim claim;
  impl_->connection.writing("claiming a plan", [&](SQLite::Database& database) {
    claim = claim_row(database, impl_->self, impl_->replaced_plans, candidate, policy);
    // A draw that meets a known plan is a draw all the same: without these the sample would lack the plans
    // that strategies had reason to time before, the good ones.
    const bool drawn = claim.state == ClaimState::measured && candidate.sampled == Sampled::uniform;
    if (!drawn || claim.record->sampled == Sampled::uniform) return;
    PlanRow row = *select_row(database, candidate.key());
    row.record.sampled = claim.record->sampled = Sampled::uniform;
    write_row(database, row);
  });
  return claim;
}

void TuningStore::record_plan(const PlanRecord& result) {
  require_valid(result.measurement);
  impl_->connection.writing("saving a plan's measurement", [&](SQLite::Database& database) {
    record_row(database, impl_->self, impl_->replaced_plans, result);
  });
}

void TuningStore::release_plan(const PlanKey& key) {
  impl_->connection.writing("giving up a claim", [&](SQLite::Database& database) {
    release_row(database, impl_->self, impl_->replaced_plans, key);
  });
}

std::optional<PlanRecord> TuningStore::find_plan(const PlanKey& key) const {
  std::optional<PlanRecord> result;
  impl_->connection.reading("looking up a plan's measurement", [&](SQLite::Database& database) {
    std::optional<PlanRow> row = select_row(database, key);
    if (row && !row->started) result = std::move(row->record);
  });
  return result;
}

std::vector<PlanRecord> TuningStore::plan_records(const std::string& problem, const std::string& environment,
                                                  const std::string& cache_mode) const {
  std::vector<PlanRecord> result;
  impl_->connection.reading("reading measurements of plans", [&](SQLite::Database& database) {
    SQLite::Statement statement(database, std::string(kSelectPlans) +
                                              "p.key = ? AND e.fingerprint = ? AND s.cache_mode = ?"
                                              " AND s.outcome <> 'started' ORDER BY s.id");
    statement.bind(1, problem);
    statement.bind(2, environment);
    statement.bind(3, cache_mode);
    while (statement.executeStep()) result.push_back(read_plan(statement).record);
  });
  return result;
}

std::optional<std::int64_t> TuningStore::row_number(const SegmentKey& key) const {
  std::optional<std::int64_t> number;
  impl_->connection.reading("looking up a measurement",
                            [&](SQLite::Database& database) { number = find_row_number(database, key); });
  return number;
}

std::optional<std::int64_t> TuningStore::row_number(const PlanKey& key) const {
  std::optional<std::int64_t> number;
  impl_->connection.reading("looking up a plan's measurement",
                            [&](SQLite::Database& database) { number = find_row_number(database, key); });
  return number;
}

void TuningStore::record_finalists(std::int64_t run, std::span<const ComparisonRecord> finalists) {
  impl_->connection.writing("saving the finalists", [&](SQLite::Database& database) {
    write_comparisons(database, run, impl_->self, finalists);
  });
}

std::optional<std::vector<ComparisonRecord>> TuningStore::find_finalists(
    const std::string& finalists_hash) const {
  std::vector<ComparisonRecord> finalists;
  impl_->connection.reading("looking up the finalists", [&](SQLite::Database& database) {
    SQLite::Statement statement(
        database, std::string(kSelectComparisons) +
                      "c.run = (SELECT max(id) FROM search_run WHERE finalists_hash = ? AND state = "
                      "'finished' AND id IN (SELECT run FROM comparison)) ORDER BY c.position");
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
    stats.comparisons = count("comparison");
    stats.schema_version = database.execAndGet("PRAGMA user_version").getInt();
    const auto by_outcome = [&](const char* table) {
      std::map<std::string, std::int64_t> counts;
      SQLite::Statement rows(database,
                             std::string("SELECT outcome, count(*) FROM ") + table + " GROUP BY outcome");
      while (rows.executeStep()) counts[rows.getColumn(0).getString()] = rows.getColumn(1).getInt64();
      return counts;
    };
    stats.segments_by_outcome = by_outcome("segment_measurement");
    stats.plans_by_outcome = by_outcome("plan_measurement");
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
