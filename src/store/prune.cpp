// Removing rows for good.
#include <SQLiteCpp/SQLiteCpp.h>

#include <set>

#include "store/contents.h"
#include "store/database.h"
#include "store/process_identity.h"
#include "store/rows.h"

namespace fusetune::store {
namespace {

using Ids = std::set<std::int64_t>;

constexpr const char* kChosen =
    " JOIN problem p ON p.id = s.problem JOIN environment e ON e.id = s.environment"
    " WHERE (:problem = '' OR p.key = :problem)"
    " AND substr(e.fingerprint, 1, length(:environment)) = :environment AND (:before = 0 OR ";

void bind_common(SQLite::Statement& statement, const Pruning& pruning) {
  statement.bind(":problem", pruning.rows.problem);
  statement.bind(":environment", pruning.rows.environment);
  statement.bind(":before", pruning.before);
}

std::string outcome_condition(const std::vector<measure::Outcome>& outcomes) {
  std::string list;
  for (const measure::Outcome outcome : outcomes)
    list += (list.empty() ? "'" : ", '") + std::string(measure::name(outcome)) + "'";
  return list.empty() ? "" : " AND s.outcome IN (" + list + ")";
}

Ids chosen_measurements(SQLite::Database& database, const char* table, const Pruning& pruning,
                        std::int64_t& held) {
  SQLite::Statement row(database, std::string("SELECT s.id, s.outcome, s.owner, s.created FROM ") + table +
                                      " s" + kChosen +
                                      "s.created < :before)"
                                      " AND (:cache_mode = '' OR s.cache_mode = :cache_mode)"
                                      " AND (:protocol = 0 OR s.protocol < :protocol)" +
                                      outcome_condition(pruning.outcomes));
  bind_common(row, pruning);
  row.bind(":cache_mode", pruning.rows.cache_mode);
  row.bind(":protocol", pruning.protocol_before);
  Ids ids;
  while (row.executeStep()) {
    const bool claimed = row.getColumn("outcome").getString() == "started";
    if (claimed && !claim_is_dead(row.getColumn("owner").getString(), row.getColumn("created").getInt64())) {
      ++held;
    } else {
      ids.insert(row.getColumn("id").getInt64());
    }
  }
  return ids;
}

Ids chosen_runs(SQLite::Database& database, const Pruning& pruning, std::int64_t& held) {
  if (!pruning.outcomes.empty() || pruning.protocol_before > 0 || !pruning.rows.cache_mode.empty()) return {};
  SQLite::Statement row(database, std::string("SELECT s.id, s.state, s.owner, s.started FROM search_run s") +
                                      kChosen + "s.started < :before)");
  bind_common(row, pruning);
  Ids ids;
  while (row.executeStep()) {
    const bool running = row.getColumn("state").getString() == "running";
    if (running && life_of(row.getColumn("owner").getString()) == Life::alive) {
      ++held;
    } else {
      ids.insert(row.getColumn("id").getInt64());
    }
  }
  return ids;
}

/// Runs whose comparison loses its run, a plan or its baseline: what is left of it would say nothing.
Ids broken_comparisons(SQLite::Database& database, const Ids& runs, const Ids& plans) {
  SQLite::Statement row(database, "SELECT run, plan, baseline FROM comparison");
  Ids broken;
  while (row.executeStep()) {
    const std::int64_t run = row.getColumn(0).getInt64();
    if (runs.contains(run) || plans.contains(row.getColumn(1).getInt64()) ||
        plans.contains(row.getColumn(2).getInt64()))
      broken.insert(run);
  }
  return broken;
}

/// Runs a statement with one parameter for each number; how many rows that changed.
std::int64_t for_each(SQLite::Database& database, const char* sql, const Ids& ids) {
  SQLite::Statement statement(database, sql);
  std::int64_t rows = 0;
  for (const std::int64_t id : ids) {
    statement.bind(1, id);
    rows += statement.exec();
    statement.reset();
  }
  return rows;
}

std::int64_t remove_unused(SQLite::Database& database, const std::string& table) {
  std::string unused = "DELETE FROM " + table + " WHERE true";
  for (const char* user : {"search_run", "segment_measurement", "plan_measurement"})
    unused += " AND id NOT IN (SELECT " + table + " FROM " + user + ")";
  return database.exec(unused);
}

}  // namespace

bool Pruning::any() const {
  return before > 0 || protocol_before > 0 || !outcomes.empty() || !rows.problem.empty() ||
         !rows.environment.empty() || !rows.cache_mode.empty();
}

Pruned TuningStore::prune(const Pruning& pruning, bool dry_run) {
  if (!pruning.any()) throw base::InternalError("pruning without a criterion would remove everything");
  Pruned pruned;
  const auto work = [&](SQLite::Database& database) {
    const Ids segments = chosen_measurements(database, "segment_measurement", pruning, pruned.held);
    const Ids plans = chosen_measurements(database, "plan_measurement", pruning, pruned.held);
    const Ids runs = chosen_runs(database, pruning, pruned.held);
    const Ids comparisons = broken_comparisons(database, runs, plans);
    pruned.comparisons = for_each(database, "DELETE FROM comparison WHERE run = ?", comparisons);
    for_each(database, "UPDATE search_run SET finalists_hash = NULL WHERE id = ?", comparisons);
    pruned.segments = for_each(database, "DELETE FROM segment_measurement WHERE id = ?", segments);
    pruned.plans = for_each(database, "DELETE FROM plan_measurement WHERE id = ?", plans);
    for_each(database, "UPDATE segment_measurement SET run = NULL WHERE run = ?", runs);
    for_each(database, "UPDATE plan_measurement SET run = NULL WHERE run = ?", runs);
    pruned.runs = for_each(database, "DELETE FROM search_run WHERE id = ?", runs);
    pruned.problems = remove_unused(database, "problem");
    pruned.environments = remove_unused(database, "environment");
  };
  if (dry_run) {
    connection().trying("looking for rows to remove", work);
    return pruned;
  }
  connection().writing("removing rows", work);
  connection().reading("giving the room back", [](SQLite::Database& database) { database.exec("VACUUM"); });
  return pruned;
}

}  // namespace fusetune::store
