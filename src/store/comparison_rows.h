// Rows of comparison: the finalists of a run. Internal to store.
#pragma once

#include <string>
#include <vector>

#include "store/rows.h"

namespace fusetune::store {

/// Up to the condition on c (comparison), s (its plan), p (problem) and e (environment).
extern const char* const kSelectComparisons;

/// Replaces the finalists of `run`, the baseline first, and stores or replaces their plans, measured by
/// `owner`.
void write_comparisons(SQLite::Database& database, std::int64_t run, const std::string& owner,
                       std::span<const ComparisonRecord> finalists);
/// Adds finalists of another store's run. Their plans must be there; what they say about themselves stays.
void add_comparisons(SQLite::Database& database, std::int64_t run,
                     std::span<const ComparisonRecord> finalists);
ComparisonRecord read_comparison(SQLite::Statement& row);

}  // namespace fusetune::store
