#include "store/run_rows.h"

#include "store/database.h"
#include "store/json_text.h"
#include "store/process_identity.h"

namespace fusetune::store {
namespace {

RunState parse_run_state(const std::string& text) {
  for (const RunState state :
       {RunState::running, RunState::finished, RunState::interrupted, RunState::failed}) {
    if (text == name(state)) return state;
  }
  throw DamagedFile("a search run in the tuning database has the unknown state `" + text +
                    "`; run `fusetune db check`");
}

}  // namespace

void add_problem(SQLite::Database& database, const std::string& key) {
  SQLite::Statement statement(database, "INSERT INTO problem (key) VALUES (?) ON CONFLICT DO NOTHING");
  statement.bind(1, key);
  statement.exec();
}

void add_environment(SQLite::Database& database, const EnvironmentRecord& environment) {
  SQLite::Statement statement(database,
                              "INSERT INTO environment (fingerprint, fields) VALUES (?, ?)"
                              " ON CONFLICT (fingerprint) DO UPDATE SET fields = excluded.fields");
  statement.bind(1, environment.fingerprint);
  statement.bind(2, to_json(environment.fields));
  statement.exec();
}

void add_missing_environment(SQLite::Database& database, const EnvironmentRecord& environment) {
  SQLite::Statement statement(
      database, "INSERT INTO environment (fingerprint, fields) VALUES (?, ?) ON CONFLICT DO NOTHING");
  statement.bind(1, environment.fingerprint);
  statement.bind(2, to_json(environment.fields));
  statement.exec();
}

std::vector<EnvironmentRecord> all_environments(SQLite::Database& database) {
  std::vector<EnvironmentRecord> environments;
  SQLite::Statement row(database, "SELECT fingerprint, fields FROM environment ORDER BY id");
  while (row.executeStep())
    environments.push_back({row.getColumn(0).getString(), fields_from_json(row.getColumn(1).getString())});
  return environments;
}

std::int64_t add_run(SQLite::Database& database, const RunRecord& run, const std::string& owner) {
  SQLite::Statement statement(
      database, std::string("INSERT INTO search_run (problem, environment, state, owner, started, finished,"
                            " options, finalists_hash, result) VALUES (") +
                    kProblemId + ", " + kEnvironmentId +
                    ", :state, :owner, :started, :finished, :options, nullif(:finalists_hash, ''),"
                    " nullif(:result, ''))");
  statement.bind(":problem", run.problem);
  statement.bind(":environment", run.environment);
  statement.bind(":state", std::string(name(run.state)));
  statement.bind(":owner", owner);
  statement.bind(":started", run.started);
  if (run.finished) {
    statement.bind(":finished", *run.finished);
  } else {
    statement.bind(":finished");
  }
  statement.bind(":options", run.options);
  statement.bind(":finalists_hash", run.finalists_hash);
  statement.bind(":result", run.result);
  statement.exec();
  return database.getLastInsertRowid();
}

RunRecord read_run(SQLite::Statement& row) {
  RunRecord run;
  run.id = row.getColumn("id").getInt64();
  run.problem = row.getColumn("problem_key").getString();
  run.environment = row.getColumn("fingerprint").getString();
  run.state = parse_run_state(row.getColumn("state").getString());
  run.started = row.getColumn("started").getInt64();
  if (!row.getColumn("finished").isNull()) run.finished = row.getColumn("finished").getInt64();
  run.options = row.getColumn("options").getString();
  run.finalists_hash = row.getColumn("finalists_hash").getString();
  run.result = row.getColumn("result").getString();
  return run;
}

std::vector<RunRecord> all_runs(SQLite::Database& database) {
  std::vector<RunRecord> runs;
  SQLite::Statement row(database,
                        "SELECT r.*, p.key AS problem_key, e.fingerprint AS fingerprint FROM search_run r"
                        " JOIN problem p ON p.id = r.problem JOIN environment e ON e.id = r.environment"
                        " ORDER BY r.id DESC");
  while (row.executeStep()) runs.push_back(read_run(row));
  return runs;
}

void interrupt_dead_runs(SQLite::Database& database) {
  std::vector<std::int64_t> dead;
  SQLite::Statement running(database, "SELECT id, owner FROM search_run WHERE state = 'running'");
  while (running.executeStep()) {
    if (life_of(running.getColumn(1).getString()) == Life::dead)
      dead.push_back(running.getColumn(0).getInt64());
  }
  running.reset();
  for (const std::int64_t run : dead) {
    SQLite::Statement interrupt(database, "UPDATE search_run SET state = 'interrupted' WHERE id = ?");
    interrupt.bind(1, run);
    interrupt.exec();
  }
}

}  // namespace fusetune::store
