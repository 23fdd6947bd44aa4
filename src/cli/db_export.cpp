// db export: recorded measurements as rows, as JSON lines that db import reads, or in the research notes'
// format.
#include <fmt/format.h>

#include <map>
#include <set>
#include <tuple>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/number.h"
#include "cli/command.h"
#include "cli/comparable_times.h"
#include "cli/db_actions.h"
#include "plan/fusion_plan.h"
#include "store/json_lines.h"
#include "store/tuning_store.h"

namespace fusetune::cli {
namespace {

using report::Cell;

bool is_ok(const measure::Measurement& measurement) { return measurement.outcome == measure::Outcome::ok; }

Cell number_if(bool present, double value) { return present ? Cell(value) : Cell(); }

Cell text_if_any(const std::string& text) { return text.empty() ? Cell() : Cell(text); }

std::vector<Cell> time_cells(const measure::Measurement& measurement) {
  const bool ok = is_ok(measurement);
  return {std::string(measure::name(measurement.outcome)),
          measurement.message,
          number_if(ok, measurement.time.median_us),
          number_if(ok, measurement.time.mad_us),
          number_if(ok, measurement.time.min_us),
          ok ? Cell(std::int64_t{measurement.time.count}) : Cell()};
}

std::vector<report::Column> with_time(std::vector<report::Column> columns,
                                      const std::vector<report::Column>& more) {
  for (const char* key : {"outcome", "message", "median_us", "mad_us", "min_us", "sample_count"})
    columns.push_back({key, key});
  columns.insert(columns.end(), more.begin(), more.end());
  return columns;
}

void add(report::Table& table, std::vector<Cell> row, const measure::Measurement& measurement,
         const std::vector<Cell>& more) {
  for (Cell& cell : time_cells(measurement)) row.push_back(std::move(cell));
  row.insert(row.end(), more.begin(), more.end());
  table.add(std::move(row));
}

std::vector<report::Column> with_conditions(std::vector<report::Column> columns) {
  for (const char* key : {"reference_us", "slowdown", "device_uuid"}) columns.push_back({key, key});
  return columns;
}

std::vector<Cell> with_conditions(std::vector<Cell> row, const measure::Measurement& measurement) {
  const bool present = measurement.reference_us > 0;
  row.push_back(number_if(present, measurement.reference_us));
  row.push_back(number_if(present, measurement.slowdown));
  row.push_back(text_if_any(measurement.device_uuid));
  return row;
}

report::Table segment_rows(const store::Contents& contents) {
  report::Table table(with_time({{"problem", "problem"},
                                 {"environment", "environment"},
                                 {"variant", "variant"},
                                 {"segment", "segment"},
                                 {"schedule", "schedule"},
                                 {"source_hash", "source hash"},
                                 {"layouts", "layouts"},
                                 {"data", "data"},
                                 {"cache_mode", "cache mode"},
                                 {"protocol", "protocol"},
                                 {"settings", "settings"}},
                                with_conditions({{"attempts", "attempts"}, {"created", "created"}})));
  for (const store::TuningRecord& segment : contents.segments) {
    const store::SegmentKey& key = segment.key;
    add(table,
        {key.problem, key.environment, std::int64_t{key.variant},
         plan::all_variants()[static_cast<std::size_t>(key.variant)].to_string(), segment.schedule,
         key.source_hash, key.layouts, key.data, key.cache_mode, std::int64_t{key.protocol}, key.settings},
        segment.measurement,
        with_conditions({std::int64_t{segment.attempts}, segment.created}, segment.measurement));
  }
  return table;
}

report::Table plan_rows(const store::Contents& contents) {
  report::Table table(
      with_time({{"problem", "problem"},
                 {"environment", "environment"},
                 {"mask", "mask"},
                 {"bits", "bits"},
                 {"plan", "plan"},
                 {"schedules", "schedules"},
                 {"sources_hash", "sources hash"},
                 {"data", "data"},
                 {"cache_mode", "cache mode"},
                 {"protocol", "protocol"},
                 {"settings", "settings"},
                 {"sampled", "sampled"}},
                with_conditions({{"sum_us", "sum us"}, {"attempts", "attempts"}, {"created", "created"}})));
  for (const store::PlanRecord& record : contents.plans) {
    const plan::FusionMask mask{record.mask};
    add(table,
        {record.problem, record.environment, std::int64_t{record.mask}, mask.to_binary(),
         plan::FusionPlan::from_mask(mask).to_string(), fmt::format("{}", fmt::join(record.schedules, " | ")),
         record.sources_hash, record.data, record.cache_mode, std::int64_t{record.protocol}, record.settings,
         std::string(store::name(record.sampled))},
        record.measurement,
        with_conditions(
            {number_if(record.sum_us > 0, record.sum_us), std::int64_t{record.attempts}, record.created},
            record.measurement));
  }
  return table;
}

report::Table run_rows(const store::Contents& contents) {
  report::Table table({{"run", "run"},
                       {"problem", "problem"},
                       {"environment", "environment"},
                       {"state", "state"},
                       {"started", "started"},
                       {"finished", "finished"},
                       {"options", "options"},
                       {"result", "result"}});
  for (const store::RunRecord& run : contents.runs) {
    table.add({run.id, run.problem, run.environment, std::string(store::name(run.state)), run.started,
               run.finished ? Cell(*run.finished) : Cell(), run.options, run.result});
  }
  return table;
}

report::Table comparison_rows(const store::Contents& contents) {
  report::Table table(with_time({{"run", "run"}, {"position", "position"}, {"mask", "mask"}},
                                {{"ratio", "ratio"},
                                 {"low", "low"},
                                 {"high", "high"},
                                 {"pairs", "pairs"},
                                 {"whole_over_sum", "whole over sum"},
                                 {"device_uuid", "device_uuid"}}));
  for (const auto& [run, finalists] : contents.finalists) {
    for (std::size_t i = 0; i < finalists.size(); ++i) {
      const store::ComparisonRecord& finalist = finalists[i];
      const bool ok = is_ok(finalist.plan.measurement);
      add(table, {run, static_cast<std::int64_t>(i), std::int64_t{finalist.plan.mask}},
          finalist.plan.measurement,
          {number_if(ok, finalist.ratio), number_if(ok, finalist.low), number_if(ok, finalist.high),
           std::int64_t{finalist.pairs},
           finalist.whole_over_sum ? Cell(finalist.whole_over_sum->ratio) : Cell(),
           text_if_any(finalist.plan.measurement.device_uuid)});
    }
  }
  return table;
}

report::Table rows_of(const std::string& table, const store::Contents& contents) {
  if (table == "segments") return segment_rows(contents);
  if (table == "plans") return plan_rows(contents);
  if (table == "runs") return run_rows(contents);
  return comparison_rows(contents);
}

/// Only one kind of rows, and what it needs to be read again.
store::Contents only(const std::string& table, store::Contents contents) {
  if (table == "comparisons")
    throw base::UsageError(
        "--table comparisons: as JSON lines they need their runs and plans; leave --table out");
  if (!table.empty()) {
    contents.finalists.clear();
    if (table != "segments") contents.segments.clear();
    if (table != "plans") contents.plans.clear();
    if (table != "runs") contents.runs.clear();
  }
  std::set<std::string> used;
  for (const store::RunRecord& run : contents.runs) used.insert(run.environment);
  for (const store::TuningRecord& segment : contents.segments) used.insert(segment.key.environment);
  for (const store::PlanRecord& plan : contents.plans) used.insert(plan.environment);
  std::erase_if(contents.environments, [&](const store::EnvironmentRecord& environment) {
    return !used.contains(environment.fingerprint);
  });
  return contents;
}

using Place = std::tuple<std::string, std::string, std::string>;  // problem, environment, cache mode

/// Times that may stand in one file, which says nothing about each line's place.
Place only_place(const std::set<Place>& places) {
  if (places.size() == 1) return *places.begin();
  if (places.empty()) throw base::UsageError("--format notes: no plan with a time is selected");
  std::string choices;
  for (const auto& [problem, environment, cache] : places)
    choices += fmt::format("\n  --problem '{}' --environment {} --cache {}", problem, environment, cache);
  throw base::UsageError("--format notes holds one problem, environment and cache mode; choose one:" +
                         choices);
}

std::string notes(const std::string& file, const store::Contents& contents) {
  std::set<Place> places;
  for (const store::PlanRecord& plan : contents.plans)
    if (is_ok(plan.measurement)) places.emplace(plan.problem, plan.environment, plan.cache_mode);
  const auto [problem, environment, cache] = only_place(places);
  std::string text = fmt::format(
      "# 16 bits of a plan, its median time in milliseconds\n# problem: {}\n# environment: {}\n"
      "# cache mode: {}\n",
      problem, environment, cache);
  const auto comparable = comparable_times(contents.plans);
  if (comparable.other_units > 0) base::note(fmt::format("{}: {}", file, comparable.left_out()));
  std::map<std::uint16_t, double> best_us;  // the same plan may have been timed with other schedules
  for (const store::PlanRecord& plan : comparable.rows) {
    const double us = plan.measurement.time.median_us;
    const auto [known, is_new] = best_us.emplace(plan.mask, us);
    if (!is_new) known->second = std::min(known->second, us);
  }
  for (const auto& [mask, us] : best_us) {
    text += fmt::format("{} {}\n", plan::FusionMask{mask}.to_binary(), base::format_shortest(us / 1e3));
  }
  return text;
}

void write(const std::string& target, const std::string& text) {
  if (target == "-") {
    print(text);
  } else {
    base::write_file_atomic(target, text);
  }
}

}  // namespace

int db_export(const DbArguments& arguments) {
  const bool rows = arguments.output.wanted();
  if (rows && arguments.table.empty())
    throw base::UsageError("db export: --csv and --json write one kind of rows: say which with --table");
  if (rows + !arguments.json_lines.empty() + !arguments.format.empty() > 1)
    throw base::UsageError("db export: choose one of --csv or --json, --jsonl and --format notes");
  if (!arguments.format.empty() && !arguments.table.empty() && arguments.table != "plans")
    throw base::UsageError("--format notes holds plans: not --table " + arguments.table);
  const store::TuningStore database(arguments.file, {.access = store::Access::look});
  store::Contents contents = database.contents(arguments.rows);
  if (!arguments.format.empty()) {
    print(notes(arguments.file, contents));
  } else if (rows) {
    arguments.output.write(rows_of(arguments.table, contents));
  } else {
    write(arguments.json_lines.empty() ? "-" : arguments.json_lines,
          store::to_json_lines(only(arguments.table, std::move(contents))));
  }
  return kDone;
}

}  // namespace fusetune::cli
