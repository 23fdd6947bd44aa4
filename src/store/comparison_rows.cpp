#include "store/comparison_rows.h"

#include <limits>

#include "store/plan_rows.h"

namespace fusetune::store {
namespace {

using measure::Outcome;

/// A comparison has its times as they were seen, a plan's row in units of the reference.
void to_reference_units(measure::Measurement& measurement) {
  if (!(measurement.reference_us > 0)) return;
  for (double* us : {&measurement.time.median_us, &measurement.time.mad_us, &measurement.time.min_us})
    *us /= measurement.slowdown;
  for (double& us : measurement.samples_us) us /= measurement.slowdown;
}

/// Number of a finalist's row in plan_measurement. A comparison that gave a plan no time (it was clearly
/// slower, the machine was too noisy) says nothing against the time the plan has. Nor does one that gave it
/// another: a strategy's plans were all timed in one way, and a search that goes on from them must not meet
/// the best of them as timed in another. What the comparison saw is in the comparison.
std::int64_t write_finalist(SQLite::Database& database, PlanRecord plan, std::int64_t run,
                            const std::string& owner) {
  require_valid(plan.measurement);
  to_reference_units(plan.measurement);
  plan.run = run;
  const std::optional<PlanRow> before = select_row(database, plan.key());
  const Outcome outcome = plan.measurement.outcome;
  if (before) {
    const bool timed = !before->started && before->record.measurement.outcome == Outcome::ok;
    const bool by_strategy = before->record.sampled != Sampled::finalist;
    if (timed &&
        (outcome == Outcome::skipped || outcome == Outcome::noisy || (by_strategy && outcome == Outcome::ok)))
      return write_row(database, *before);
    plan.attempts = before->record.attempts;
    plan.abandoned = before->record.abandoned;
    inherit(plan, before->record);
  }
  return write_row(database, PlanRow{std::move(plan), false, owner});
}

void write_comparison(SQLite::Database& database, std::int64_t run, int position, std::int64_t plan,
                      std::int64_t baseline, const ComparisonRecord& comparison) {
  const measure::Measurement& measurement = comparison.plan.measurement;
  const bool ok = measurement.outcome == Outcome::ok;
  SQLite::Statement statement(
      database,
      "INSERT INTO comparison (run, position, plan, baseline, outcome, message, ratio, low, high, pairs,"
      " median_us, mad_us, min_us, sample_count, whole_over_sum, whole_over_sum_low, whole_over_sum_high,"
      " device_uuid)"
      " VALUES (:run, :position, :plan, :baseline, :outcome, :message, :ratio, :low, :high, :pairs,"
      " :median_us, :mad_us, :min_us, :sample_count, :whole_over_sum, :whole_over_sum_low,"
      " :whole_over_sum_high, :device_uuid)");
  bind_run(statement, run);
  statement.bind(":position", position);
  statement.bind(":plan", plan);
  statement.bind(":baseline", baseline);
  statement.bind(":outcome", std::string(measure::name(measurement.outcome)));
  statement.bind(":message", measurement.message);
  bind_number(statement, ":ratio", comparison.ratio, ok);
  bind_number(statement, ":low", comparison.low, ok);
  bind_number(statement, ":high", comparison.high, ok);
  statement.bind(":pairs", comparison.pairs);
  const auto parts = comparison.whole_over_sum.value_or(ComparisonRecord::WholeOverSum{});
  bind_number(statement, ":whole_over_sum", parts.ratio, comparison.whole_over_sum.has_value());
  bind_number(statement, ":whole_over_sum_low", parts.low, comparison.whole_over_sum.has_value());
  bind_number(statement, ":whole_over_sum_high", parts.high, comparison.whole_over_sum.has_value());
  bind_time(statement, measurement);
  bind_device(statement, measurement);
  statement.exec();
}

/// Of an interval. Too few pairs for one are stored as NULL: it could be anything.
double upper_limit(SQLite::Statement& row, const char* name) {
  const SQLite::Column high = row.getColumn(name);
  return high.isNull() ? std::numeric_limits<double>::infinity() : high.getDouble();
}

}  // namespace

const char* const kSelectComparisons =
    "SELECT s.*, p.key AS problem_key, e.fingerprint AS fingerprint, c.run AS of_run, c.position AS position,"
    " c.outcome AS seen_outcome, c.message AS seen_message, c.ratio AS ratio, c.low AS low, c.high AS high,"
    " c.pairs AS pairs, c.median_us AS seen_median_us, c.mad_us AS seen_mad_us, c.min_us AS seen_min_us,"
    " c.sample_count AS seen_count, c.whole_over_sum AS whole_over_sum,"
    " c.whole_over_sum_low AS whole_over_sum_low, c.whole_over_sum_high AS whole_over_sum_high,"
    " c.device_uuid AS seen_device_uuid"
    " FROM comparison c JOIN plan_measurement s ON s.id = c.plan JOIN problem p ON p.id = s.problem"
    " JOIN environment e ON e.id = s.environment WHERE ";

void write_comparisons(SQLite::Database& database, std::int64_t run, const std::string& owner,
                       std::span<const ComparisonRecord> finalists) {
  SQLite::Statement clear(database, "DELETE FROM comparison WHERE run = ?");
  clear.bind(1, run);
  clear.exec();
  std::int64_t baseline = 0;
  for (std::size_t i = 0; i < finalists.size(); ++i) {
    const std::int64_t plan = write_finalist(database, finalists[i].plan, run, owner);
    if (i == 0) baseline = plan;
    write_comparison(database, run, static_cast<int>(i), plan, baseline, finalists[i]);
  }
}

void add_comparisons(SQLite::Database& database, std::int64_t run,
                     std::span<const ComparisonRecord> finalists) {
  std::int64_t baseline = 0;
  for (std::size_t i = 0; i < finalists.size(); ++i) {
    const std::int64_t plan = row_number(database, finalists[i].plan);
    if (i == 0) baseline = plan;
    write_comparison(database, run, static_cast<int>(i), plan, baseline, finalists[i]);
  }
}

ComparisonRecord read_comparison(SQLite::Statement& row) {
  ComparisonRecord comparison;
  comparison.plan = read_plan(row).record;
  measure::Measurement& measurement = comparison.plan.measurement;
  measurement = {};
  measurement.outcome = measure::parse_outcome(row.getColumn("seen_outcome").getString());
  measurement.message = row.getColumn("seen_message").getString();
  measurement.device_uuid = row.getColumn("seen_device_uuid").getString();
  comparison.pairs = row.getColumn("pairs");
  if (measurement.outcome != Outcome::ok) return comparison;
  measurement.time = {row.getColumn("seen_median_us").getDouble(), row.getColumn("seen_mad_us").getDouble(),
                      row.getColumn("seen_min_us").getDouble(), row.getColumn("seen_count").getInt()};
  comparison.ratio = row.getColumn("ratio").getDouble();
  comparison.low = row.getColumn("low").getDouble();
  comparison.high = upper_limit(row, "high");
  if (!row.getColumn("whole_over_sum").isNull()) {
    comparison.whole_over_sum = {row.getColumn("whole_over_sum").getDouble(),
                                 row.getColumn("whole_over_sum_low").getDouble(),
                                 upper_limit(row, "whole_over_sum_high")};
  }
  return comparison;
}

}  // namespace fusetune::store
