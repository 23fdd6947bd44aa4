// Rows of search_run, and of the problems and environments that everything refers to. Internal to store.
#pragma once

#include <string>
#include <vector>

#include "store/rows.h"

namespace fusetune::store {

void add_problem(SQLite::Database& database, const std::string& key);
/// Adds it, or brings its fields up to date.
void add_environment(SQLite::Database& database, const EnvironmentRecord& environment);
/// Leaves one that is there as it is.
void add_missing_environment(SQLite::Database& database, const EnvironmentRecord& environment);
std::vector<EnvironmentRecord> all_environments(SQLite::Database& database);
/// Number of the new row; `run.id` means nothing.
std::int64_t add_run(SQLite::Database& database, const RunRecord& run, const std::string& owner);

RunRecord read_run(SQLite::Statement& row);
/// Newest first.
std::vector<RunRecord> all_runs(SQLite::Database& database);
/// Turns running ones of dead processes into interrupted ones.
void interrupt_dead_runs(SQLite::Database& database);

}  // namespace fusetune::store
