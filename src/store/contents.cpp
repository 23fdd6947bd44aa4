#include "store/contents.h"

#include <SQLiteCpp/SQLiteCpp.h>

#include <cmath>
#include <set>

#include "base/error.h"
#include "plan/fusion_plan.h"
#include "store/comparison_rows.h"
#include "store/database.h"
#include "store/plan_rows.h"
#include "store/process_identity.h"
#include "store/run_rows.h"
#include "store/segment_rows.h"

namespace fusetune::store {
namespace {

/// A condition on p (problem) and e (environment), to be completed by bind_selection().
constexpr const char* kSelected =
    "(:problem = '' OR p.key = :problem) AND substr(e.fingerprint, 1, length(:environment)) = :environment";
constexpr const char* kSelectedMode = " AND (:cache_mode = '' OR s.cache_mode = :cache_mode)";

void bind_selection(SQLite::Statement& statement, const Selection& selection, bool with_mode) {
  statement.bind(":problem", selection.problem);
  statement.bind(":environment", selection.environment);
  if (with_mode) statement.bind(":cache_mode", selection.cache_mode);
}

std::vector<RunRecord> selected_runs(SQLite::Database& database, const Selection& selection) {
  SQLite::Statement row(database,
                        std::string("SELECT r.*, p.key AS problem_key, e.fingerprint AS fingerprint FROM"
                                    " search_run r JOIN problem p ON p.id = r.problem"
                                    " JOIN environment e ON e.id = r.environment WHERE ") +
                            kSelected + " ORDER BY r.id");
  bind_selection(row, selection, false);
  std::vector<RunRecord> runs;
  while (row.executeStep()) runs.push_back(read_run(row));
  return runs;
}

template <typename Record, typename Read>
std::vector<Record> selected_rows(SQLite::Database& database, const Selection& selection, const char* select,
                                  const Read& read) {
  SQLite::Statement row(database, std::string(select) + kSelected + kSelectedMode +
                                      " AND s.outcome <> 'started' ORDER BY s.id");
  bind_selection(row, selection, true);
  std::vector<Record> records;
  while (row.executeStep()) records.push_back(read(row).record);
  return records;
}

/// Those of runs whose plans are all selected: a comparison without its baseline says nothing.
std::map<std::int64_t, std::vector<ComparisonRecord>> selected_finalists(SQLite::Database& database,
                                                                         const Selection& selection) {
  SQLite::Statement row(database, std::string(kSelectComparisons) + kSelected + kSelectedMode +
                                      " AND c.run NOT IN (SELECT c2.run FROM comparison c2"
                                      " JOIN plan_measurement s2 ON s2.id IN (c2.plan, c2.baseline)"
                                      " WHERE s2.outcome = 'started') ORDER BY c.run, c.position");
  bind_selection(row, selection, true);
  std::map<std::int64_t, std::vector<ComparisonRecord>> finalists;
  while (row.executeStep()) finalists[row.getColumn("of_run").getInt64()].push_back(read_comparison(row));
  return finalists;
}

std::vector<EnvironmentRecord> environments_of(SQLite::Database& database, const Contents& contents) {
  std::set<std::string> used;
  for (const RunRecord& run : contents.runs) used.insert(run.environment);
  for (const TuningRecord& segment : contents.segments) used.insert(segment.key.environment);
  for (const PlanRecord& plan : contents.plans) used.insert(plan.environment);
  std::vector<EnvironmentRecord> environments;
  for (EnvironmentRecord& environment : all_environments(database)) {
    if (used.contains(environment.fingerprint)) environments.push_back(std::move(environment));
  }
  return environments;
}

/// The same search, by what it was and when.
std::int64_t find_run(SQLite::Database& database, const RunRecord& run) {
  SQLite::Statement statement(database,
                              std::string("SELECT id FROM search_run WHERE problem = ") + kProblemId +
                                  " AND environment = " + kEnvironmentId +
                                  " AND started = :started AND options = :options AND finished IS :finished"
                                  " AND coalesce(result, '') = :result ORDER BY id LIMIT 1");
  statement.bind(":problem", run.problem);
  statement.bind(":environment", run.environment);
  statement.bind(":started", run.started);
  statement.bind(":options", run.options);
  if (run.finished) {
    statement.bind(":finished", *run.finished);
  } else {
    statement.bind(":finished");
  }
  statement.bind(":result", run.result);
  return statement.executeStep() ? statement.getColumn(0).getInt64() : 0;
}

bool is_timed(const Trial& trial) { return trial.measurement.outcome == measure::Outcome::ok; }

void mark_uniform(TuningRecord& /*record*/, const TuningRecord& /*other*/, bool& /*changed*/) {}
void mark_uniform(PlanRecord& record, const PlanRecord& other, bool& changed) {
  changed = other.sampled == Sampled::uniform && record.sampled != Sampled::uniform;
  if (changed) record.sampled = Sampled::uniform;
}

/// Of two rows with one key the one with a time stays, else the newer one.
template <typename Record>
void absorb_row(SQLite::Database& database, Record record, Absorbed::Table& count) {
  std::optional<Row<Record>> own = select_row(database, key_of(record));
  if (!own) {
    write_row(database, Row<Record>{std::move(record), false, ""});
    ++count.added;
    return;
  }
  if (own->started && !claim_is_dead(own->owner, own->record.created)) {
    ++count.held;
    return;
  }
  const bool own_timed = !own->started && is_timed(own->record);
  const bool newer = own->started || record.created > own->record.created;
  if (is_timed(record) != own_timed ? is_timed(record) : newer) {
    inherit(record, own->record);
    write_row(database, Row<Record>{std::move(record), false, ""});
    ++count.replaced;
    return;
  }
  bool changed = false;
  mark_uniform(own->record, record, changed);
  if (changed) write_row(database, *own);
  ++count.kept;
}

/// Takes runs over; their numbers here by their numbers there. `fresh`: those that were not here before.
std::map<std::int64_t, std::int64_t> absorb_runs(SQLite::Database& database, std::span<const RunRecord> runs,
                                                 Absorbed::Table& count, std::set<std::int64_t>& fresh) {
  std::map<std::int64_t, std::int64_t> number_of;
  for (RunRecord run : runs) {
    add_problem(database, run.problem);
    // Whoever runs it there does not tell us how it ends.
    const std::int64_t there = run.id;
    if (run.state == RunState::running) run.state = RunState::interrupted;
    std::int64_t here = find_run(database, run);
    count.kept += here != 0;
    if (here == 0) {
      here = add_run(database, run, "");
      fresh.insert(there);
      ++count.added;
    }
    number_of[there] = here;
  }
  return number_of;
}

}  // namespace

Contents TuningStore::contents(const Selection& selection) const {
  Contents contents;
  connection().reading("reading rows", [&](SQLite::Database& database) {
    const SQLite::Transaction snapshot(database);  // all answers are of one state
    contents.runs = selected_runs(database, selection);
    contents.segments = selected_rows<TuningRecord>(database, selection, kSelectSegments, read_segment);
    contents.plans = selected_rows<PlanRecord>(database, selection, kSelectPlans, read_plan);
    contents.finalists = selected_finalists(database, selection);
    contents.environments = environments_of(database, contents);
  });
  return contents;
}

Absorbed TuningStore::absorb(const Contents& contents) {
  for (const TuningRecord& segment : contents.segments) require_valid(segment.measurement);
  for (const PlanRecord& plan : contents.plans) require_valid(plan.measurement);
  Absorbed absorbed;
  connection().writing("taking rows over", [&](SQLite::Database& database) {
    for (const EnvironmentRecord& environment : contents.environments)
      add_missing_environment(database, environment);
    std::set<std::int64_t> fresh;
    const auto number_of = absorb_runs(database, contents.runs, absorbed.runs, fresh);
    const auto renumbered = [&](std::int64_t run) {
      const auto found = number_of.find(run);
      return found == number_of.end() ? 0 : found->second;
    };
    for (TuningRecord segment : contents.segments) {
      add_problem(database, segment.key.problem);
      segment.run = renumbered(segment.run);
      absorb_row(database, std::move(segment), absorbed.segments);
    }
    for (PlanRecord plan : contents.plans) {
      add_problem(database, plan.problem);
      plan.run = renumbered(plan.run);
      absorb_row(database, std::move(plan), absorbed.plans);
    }
    for (const auto& [run, finalists] : contents.finalists) {
      if (!fresh.contains(run)) continue;
      add_comparisons(database, number_of.at(run), finalists);
      absorbed.comparisons += static_cast<std::int64_t>(finalists.size());
    }
  });
  return absorbed;
}

Contents contents_of_plan_times(const std::string& problem, const std::string& label,
                                const std::string& cache_mode,
                                std::span<const std::pair<std::uint16_t, double>> times, int& duplicates) {
  std::map<std::uint16_t, double> best_ms;
  for (const auto& [mask, ms] : times) {
    if (!std::isfinite(ms) || ms <= 0) throw base::UsageError("a plan's time must be finite and above 0");
    const std::uint16_t canonical =
        plan::FusionPlan::from_mask(plan::FusionMask{mask}).canonical_mask().value;
    const auto [known, is_new] = best_ms.emplace(canonical, ms);
    if (is_new) continue;
    known->second = std::min(known->second, ms);
    ++duplicates;
  }
  Contents contents;
  contents.environments = {{label, {{"imported", "times of whole plans"}}}};
  for (const auto& [mask, ms] : best_ms) {
    PlanRecord& plan = contents.plans.emplace_back();
    plan.problem = problem;
    plan.environment = label;
    plan.mask = mask;
    plan.sources_hash = kImportedSources;
    plan.cache_mode = cache_mode;
    plan.sampled = Sampled::uniform;
    plan.measurement.outcome = measure::Outcome::ok;
    plan.measurement.time = {ms * 1e3, 0, ms * 1e3, 1};
    plan.created = now();
  }
  return contents;
}

}  // namespace fusetune::store
