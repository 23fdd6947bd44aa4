// Rows of segment_measurement. Internal to store.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "store/rows.h"

namespace fusetune::store {

using SegmentRow = Row<TuningRecord>;

/// Up to "WHERE": complete it with a condition on s (segment_measurement), p (problem), e (environment).
extern const char* const kSelectSegments;

SegmentRow read_segment(SQLite::Statement& row);
std::optional<SegmentRow> select_row(SQLite::Database& database, const SegmentKey& key);
std::optional<std::int64_t> find_row_number(SQLite::Database& database, const SegmentKey& key);
/// Inserts or replaces one row; its number.
std::int64_t write_row(SQLite::Database& database, const SegmentRow& row);
void delete_row(SQLite::Database& database, const SegmentKey& key);
/// Claims of all processes.
std::vector<SegmentRow> started_segments(SQLite::Database& database);

inline const SegmentKey& key_of(const TuningRecord& record) { return record.key; }
/// What a new try keeps of the row it replaces, besides how often it was tried: nothing.
inline void inherit(TuningRecord& /*record*/, const TuningRecord& /*before*/) {}

/// Rows whose operators are not those of their variant number, or whose samples are not as many as they say.
void check_segments(SQLite::Database& database, std::vector<std::string>& problems);

}  // namespace fusetune::store
