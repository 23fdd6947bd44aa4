// Rows of plan_measurement. Internal to store; the same functions as for segments, so that claims work on
// both.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "store/rows.h"

namespace fusetune::store {

using PlanRow = Row<PlanRecord>;

/// Up to "WHERE": complete it with a condition on s (plan_measurement), p (problem), e (environment).
extern const char* const kSelectPlans;

PlanRow read_plan(SQLite::Statement& row);
std::optional<PlanRow> select_row(SQLite::Database& database, const PlanKey& key);
std::optional<std::int64_t> find_row_number(SQLite::Database& database, const PlanKey& key);
/// Number of a row that is there.
std::int64_t row_number(SQLite::Database& database, const PlanKey& key);
/// Inserts or replaces one row; its number.
std::int64_t write_row(SQLite::Database& database, const PlanRow& row);
void delete_row(SQLite::Database& database, const PlanKey& key);
/// Claims of all processes.
std::vector<PlanRow> started_plans(SQLite::Database& database);

inline const PlanKey& key_of(const PlanRecord& record) { return record; }
/// What a new try keeps of the row it replaces, besides how often it was tried: that it was drawn uniformly,
/// and what the new one does not know.
void inherit(PlanRecord& record, const PlanRecord& before);

/// Masks that are not canonical, and samples that are not as many as they say.
void check_plans(SQLite::Database& database, std::vector<std::string>& problems);

}  // namespace fusetune::store
