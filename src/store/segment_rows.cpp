#include "store/segment_rows.h"

#include <array>

#include "plan/fusion_plan.h"

namespace fusetune::store {
namespace {

constexpr std::array<std::string_view, 7> kKey = {"variant",    "source_hash", "layouts", "data",
                                                  "cache_mode", "protocol",    "settings"};
constexpr std::array<std::string_view, 4> kValues = {"first_operator", "last_operator", "hand_written",
                                                     "schedule"};

void bind_key(SQLite::Statement& statement, const SegmentKey& key) {
  statement.bind(":problem", key.problem);
  statement.bind(":environment", key.environment);
  statement.bind(":variant", key.variant);
  statement.bind(":source_hash", key.source_hash);
  statement.bind(":layouts", key.layouts);
  statement.bind(":data", key.data);
  statement.bind(":cache_mode", key.cache_mode);
  statement.bind(":protocol", key.protocol);
  statement.bind(":settings", key.settings);
}

}  // namespace

const char* const kSelectSegments =
    "SELECT s.*, p.key AS problem_key, e.fingerprint AS fingerprint FROM segment_measurement s"
    " JOIN problem p ON p.id = s.problem JOIN environment e ON e.id = s.environment WHERE ";

SegmentRow read_segment(SQLite::Statement& row) {
  SegmentRow result;
  TuningRecord& record = result.record;
  record.key = {row.getColumn("problem_key"), row.getColumn("fingerprint"), row.getColumn("variant"),
                row.getColumn("source_hash"), row.getColumn("layouts"),     row.getColumn("data"),
                row.getColumn("cache_mode"),  row.getColumn("protocol"),    row.getColumn("settings")};
  record.schedule = row.getColumn("schedule").getString();
  result.started = read_trial(row, record, result.owner);
  return result;
}

std::optional<SegmentRow> select_row(SQLite::Database& database, const SegmentKey& key) {
  SQLite::Statement statement(database, kSelectSegments + key_condition(kKey));
  bind_key(statement, key);
  if (!statement.executeStep()) return std::nullopt;
  return read_segment(statement);
}

std::optional<std::int64_t> find_row_number(SQLite::Database& database, const SegmentKey& key) {
  SQLite::Statement statement(
      database, "SELECT s.id FROM segment_measurement s WHERE s.outcome = 'ok' AND " + key_condition(kKey));
  bind_key(statement, key);
  if (!statement.executeStep()) return std::nullopt;
  return statement.getColumn(0).getInt64();
}

std::int64_t write_row(SQLite::Database& database, const SegmentRow& row) {
  const TuningRecord& record = row.record;
  const plan::SegmentVariant& variant = plan::all_variants()[static_cast<std::size_t>(record.key.variant)];
  SQLite::Statement statement(database, upsert_sql("segment_measurement", kKey, kValues));
  bind_key(statement, record.key);
  statement.bind(":first_operator", variant.segment.first);
  statement.bind(":last_operator", variant.segment.last);
  statement.bind(":hand_written", variant.hand_written ? 1 : 0);
  statement.bind(":schedule", record.schedule);
  bind_trial(statement, record, row.started, row.owner);
  statement.executeStep();
  const std::int64_t id = statement.getColumn(0).getInt64();
  statement.reset();
  return id;
}

void delete_row(SQLite::Database& database, const SegmentKey& key) {
  SQLite::Statement statement(database, "DELETE FROM segment_measurement AS s WHERE " + key_condition(kKey));
  bind_key(statement, key);
  statement.exec();
}

std::vector<SegmentRow> started_segments(SQLite::Database& database) {
  std::vector<SegmentRow> rows;
  SQLite::Statement statement(database, std::string(kSelectSegments) + "s.outcome = 'started'");
  while (statement.executeStep()) rows.push_back(read_segment(statement));
  return rows;
}

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
    check_samples(statement, row, problems);
  }
}

}  // namespace fusetune::store
