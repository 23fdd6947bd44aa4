// What rows of segments and rows of plans have in common. Internal to store.
#pragma once

#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/records.h"

namespace fusetune::store {

/// Seconds since 1970.
std::int64_t now();

/// A row as it is in the file: a record, or a claim (`started`) with its owner.
template <typename Record>
struct Row {
  Record record;
  bool started = false;
  std::string owner;
};

inline constexpr const char* kProblemId = "(SELECT id FROM problem WHERE key = :problem)";
inline constexpr const char* kEnvironmentId = "(SELECT id FROM environment WHERE fingerprint = :environment)";

/// The last gate in front of the file: only `ok` has a time, and it is a number. Throws base::InternalError.
void require_valid(const measure::Measurement& measurement);

/// "INSERT … ON CONFLICT … DO UPDATE …" of one row: `key` columns besides problem and environment, `values`
/// the others but those of a trial. Parameters have the columns' names.
std::string upsert_sql(std::string_view table, std::span<const std::string_view> key,
                       std::span<const std::string_view> values);
/// "s.problem = … AND s.environment = … AND s.variant = :variant …"
std::string key_condition(std::span<const std::string_view> key);

/// Binds nothing (NULL) where there is no number to store.
void bind_number(SQLite::Statement& statement, const char* name, double value, bool present);
void bind_run(SQLite::Statement& statement, std::int64_t run);
/// The columns of a summary; NULL unless the outcome is `ok`.
void bind_time(SQLite::Statement& statement, const measure::Measurement& measurement);
/// `device_uuid`; NULL where it is empty.
void bind_device(SQLite::Statement& statement, const measure::Measurement& measurement);
/// All columns of a trial, `outcome` and `owner` included.
void bind_trial(SQLite::Statement& statement, const Trial& trial, bool started, const std::string& owner);

measure::TimingSummary read_time(SQLite::Statement& row);
/// Returns whether the row is a claim.
bool read_trial(SQLite::Statement& row, Trial& trial, std::string& owner);

/// True where a claim's process is gone, or cannot be looked up from here and has had long enough.
bool claim_is_dead(std::string_view owner, std::int64_t created);
/// Turns the trial into the crash that its process left behind.
void make_crashed(Trial& trial);

/// Adds what is wrong with the samples of `row`, which has the columns sample_count and samples (their
/// number).
void check_samples(SQLite::Statement& statement, const std::string& row, std::vector<std::string>& problems);

}  // namespace fusetune::store
