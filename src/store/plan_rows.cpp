#include "store/plan_rows.h"

#include <array>

#include "base/error.h"
#include "plan/fusion_plan.h"
#include "store/json_text.h"

namespace fusetune::store {
namespace {

constexpr std::array<std::string_view, 6> kKey = {"mask",       "sources_hash", "data",
                                                  "cache_mode", "protocol",     "settings"};
constexpr std::array<std::string_view, 4> kValues = {"typed_mask", "schedules", "sum_us", "sampled"};

void bind_key(SQLite::Statement& statement, const PlanKey& key) {
  statement.bind(":problem", key.problem);
  statement.bind(":environment", key.environment);
  statement.bind(":mask", static_cast<int>(key.mask));
  statement.bind(":sources_hash", key.sources_hash);
  statement.bind(":data", key.data);
  statement.bind(":cache_mode", key.cache_mode);
  statement.bind(":protocol", key.protocol);
  statement.bind(":settings", key.settings);
}

}  // namespace

const char* const kSelectPlans =
    "SELECT s.*, p.key AS problem_key, e.fingerprint AS fingerprint FROM plan_measurement s"
    " JOIN problem p ON p.id = s.problem JOIN environment e ON e.id = s.environment WHERE ";

PlanRow read_plan(SQLite::Statement& row) {
  PlanRow result;
  PlanRecord& plan = result.record;
  plan.problem = row.getColumn("problem_key").getString();
  plan.environment = row.getColumn("fingerprint").getString();
  plan.mask = static_cast<std::uint16_t>(row.getColumn("mask").getInt());
  plan.sources_hash = row.getColumn("sources_hash").getString();
  plan.data = row.getColumn("data").getString();
  plan.cache_mode = row.getColumn("cache_mode").getString();
  plan.protocol = row.getColumn("protocol");
  plan.settings = row.getColumn("settings").getString();
  if (const SQLite::Column typed = row.getColumn("typed_mask"); !typed.isNull())
    plan.typed_mask = static_cast<std::uint16_t>(typed.getInt());
  plan.schedules = texts_from_json(row.getColumn("schedules").getString());
  plan.sum_us = row.getColumn("sum_us").getDouble();
  plan.sampled = parse_sampled(row.getColumn("sampled").getString());
  result.started = read_trial(row, plan, result.owner);
  return result;
}

std::optional<PlanRow> select_row(SQLite::Database& database, const PlanKey& key) {
  SQLite::Statement statement(database, kSelectPlans + key_condition(kKey));
  bind_key(statement, key);
  if (!statement.executeStep()) return std::nullopt;
  return read_plan(statement);
}

std::optional<std::int64_t> find_row_number(SQLite::Database& database, const PlanKey& key) {
  SQLite::Statement statement(database, "SELECT s.id FROM plan_measurement s WHERE " + key_condition(kKey));
  bind_key(statement, key);
  if (!statement.executeStep()) return std::nullopt;
  return statement.getColumn(0).getInt64();
}

std::int64_t row_number(SQLite::Database& database, const PlanKey& key) {
  if (const auto number = find_row_number(database, key)) return *number;
  throw base::InternalError("a comparison needs the plan " + std::to_string(key.mask) +
                            ", which is not there");
}

std::int64_t write_row(SQLite::Database& database, const PlanRow& row) {
  const PlanRecord& plan = row.record;
  SQLite::Statement statement(database, upsert_sql("plan_measurement", kKey, kValues));
  bind_key(statement, plan);
  if (plan.typed_mask) {
    statement.bind(":typed_mask", static_cast<int>(*plan.typed_mask));
  } else {
    statement.bind(":typed_mask");
  }
  statement.bind(":schedules", to_json(plan.schedules));
  bind_number(statement, ":sum_us", plan.sum_us, plan.sum_us > 0);
  statement.bind(":sampled", std::string(name(plan.sampled)));
  bind_trial(statement, plan, row.started, row.owner);
  statement.executeStep();
  const std::int64_t id = statement.getColumn(0).getInt64();
  statement.reset();
  return id;
}

void delete_row(SQLite::Database& database, const PlanKey& key) {
  SQLite::Statement statement(database, "DELETE FROM plan_measurement AS s WHERE " + key_condition(kKey));
  bind_key(statement, key);
  statement.exec();
}

std::vector<PlanRow> started_plans(SQLite::Database& database) {
  std::vector<PlanRow> rows;
  SQLite::Statement statement(database, std::string(kSelectPlans) + "s.outcome = 'started'");
  while (statement.executeStep()) rows.push_back(read_plan(statement));
  return rows;
}

void inherit(PlanRecord& record, const PlanRecord& before) {
  if (before.sampled == Sampled::uniform) record.sampled = Sampled::uniform;
  if (!record.typed_mask) record.typed_mask = before.typed_mask;
  if (!(record.sum_us > 0)) record.sum_us = before.sum_us;
  if (record.repeat_command.empty()) record.repeat_command = before.repeat_command;
}

void check_plans(SQLite::Database& database, std::vector<std::string>& problems) {
  SQLite::Statement statement(database,
                              "SELECT id, mask, sample_count, json_array_length(samples) AS samples"
                              " FROM plan_measurement");
  while (statement.executeStep()) {
    const std::string row = "plan_measurement row " + statement.getColumn("id").getString() + ": ";
    const plan::FusionMask mask{static_cast<std::uint16_t>(statement.getColumn("mask").getInt())};
    if (plan::FusionPlan::from_mask(mask).canonical_mask() != mask)
      problems.push_back(row + "mask " + std::to_string(mask.value) + " is not canonical");
    check_samples(statement, row, problems);
  }
}

}  // namespace fusetune::store
