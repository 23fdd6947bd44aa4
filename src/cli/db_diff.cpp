// db diff: what two databases have in common, and how its times changed.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/db_actions.h"
#include "cli/row_diff.h"
#include "store/tuning_store.h"

namespace fusetune::cli {
namespace {

using report::Cell;

/// A column, and its cell of each row.
struct DiffColumn {
  report::Column column;
  Cell (*cell)(const DiffRow& row);
  bool place = false;  // where and how it was measured: said once where it is the same in all rows
};

Cell text_of(const std::optional<DiffRow::Side>& side, std::string DiffRow::Side::*member) {
  return side ? Cell((*side).*member) : Cell();
}

Cell outcome_of(const std::optional<DiffRow::Side>& side) {
  return side ? Cell(std::string(measure::name(side->measurement.outcome))) : Cell();
}

Cell time_of(const std::optional<DiffRow::Side>& side) {
  return side && side->measurement.outcome == measure::Outcome::ok ? Cell(side->measurement.time.median_us)
                                                                   : Cell();
}

std::string name(Alike alike) {
  switch (alike) {
    case Alike::kernels:
      return "kernels";
    case Alike::schedules:
      return "schedules";
    case Alike::plan:
      return "plan";
  }
  throw base::InternalError("unknown likeness of rows");
}

std::string verdict_of(const DiffRow& row) {
  if (row.timed()) return row.verdict() < 0 ? "faster" : row.verdict() > 0 ? "slower" : "same";
  if (row.a && row.b) return row.changed_outcome() ? "changed" : "same";
  return row.a ? "only in A" : "only in B";
}

/// Keys are those of db export where they mean the same.
std::vector<DiffColumn> columns() {
  return {
      {{"problem", "problem"}, [](const DiffRow& row) { return Cell(row.problem); }, true},
      {{"environment_a", "environment A"},
       [](const DiffRow& row) { return text_of(row.a, &DiffRow::Side::environment); },
       true},
      {{"environment_b", "environment B"},
       [](const DiffRow& row) { return text_of(row.b, &DiffRow::Side::environment); },
       true},
      {{"data", "data"}, [](const DiffRow& row) { return Cell(row.data); }, true},
      {{"cache_mode", "cache mode"}, [](const DiffRow& row) { return Cell(row.cache_mode); }, true},
      {{"protocol", "protocol"}, [](const DiffRow& row) { return Cell(std::int64_t{row.protocol}); }, true},
      {{"settings", "settings"}, [](const DiffRow& row) { return Cell(row.settings); }, true},
      {{"what", "what"}, [](const DiffRow& row) { return Cell(row.what); }},
      {{"alike", "alike"},
       [](const DiffRow& row) { return row.a && row.b ? Cell(name(row.alike)) : Cell(); },
       true},
      {{"outcome_a", "outcome A"}, [](const DiffRow& row) { return outcome_of(row.a); }},
      {{"outcome_b", "outcome B"}, [](const DiffRow& row) { return outcome_of(row.b); }},
      {{"median_us_a", "A us", 1}, [](const DiffRow& row) { return time_of(row.a); }},
      {{"median_us_b", "B us", 1}, [](const DiffRow& row) { return time_of(row.b); }},
      {{"ratio", "B/A", 4}, [](const DiffRow& row) { return row.timed() ? Cell(row.ratio()) : Cell(); }},
      {{"error", "+-", 4}, [](const DiffRow& row) { return row.timed() ? Cell(row.error()) : Cell(); }},
      {{"verdict", "B is"}, [](const DiffRow& row) { return Cell(verdict_of(row)); }},
      {{"schedule_a", "schedule A"},
       [](const DiffRow& row) { return text_of(row.a, &DiffRow::Side::schedule); }},
      {{"schedule_b", "schedule B"},
       [](const DiffRow& row) { return text_of(row.b, &DiffRow::Side::schedule); }},
  };
}

report::Table table_of(const std::vector<DiffColumn>& columns, const std::vector<DiffRow>& rows) {
  std::vector<report::Column> headings;
  for (const DiffColumn& column : columns) headings.push_back(column.column);
  report::Table table(headings);
  for (const DiffRow& row : rows) {
    std::vector<Cell> cells;
    for (const DiffColumn& column : columns) cells.push_back(column.cell(row));
    table.add(std::move(cells));
  }
  return table;
}

bool same_in_all(const DiffColumn& column, const std::vector<DiffRow>& rows) {
  for (const DiffRow& row : rows)
    if (column.cell(row) != column.cell(rows.front())) return false;
  return true;
}

std::string to_text(const Cell& cell) {
  if (const auto* number = std::get_if<std::int64_t>(&cell)) return fmt::format("{}", *number);
  const auto* text = std::get_if<std::string>(&cell);
  return text == nullptr ? "" : *text;
}

/// Schedules that people would not read: the same on both sides, or those of all kernels of a plan.
bool is_left_out(const DiffColumn& column, const std::vector<DiffRow>& rows) {
  constexpr std::size_t kReadable = 160;
  if (!column.column.key.starts_with("schedule_")) return false;
  const bool second = column.column.key == "schedule_b";
  return std::any_of(rows.begin(), rows.end(),
                     [&](const DiffRow& row) { return to_text(column.cell(row)).size() > kReadable; }) ||
         (second && std::all_of(rows.begin(), rows.end(),
                                [](const DiffRow& row) { return row.a->schedule == row.b->schedule; }));
}

/// What both have; what is the same in every row stands above them.
std::string for_people(std::vector<DiffRow> rows) {
  std::erase_if(rows, [](const DiffRow& row) { return !row.a || !row.b; });
  if (rows.empty()) return "";
  std::string above;
  std::vector<DiffColumn> shown;
  for (const DiffColumn& column : columns()) {
    if (column.place && same_in_all(column, rows)) {
      above += fmt::format("  {}: {}\n", column.column.heading, to_text(column.cell(rows.front())));
    } else if (!is_left_out(column, rows)) {
      shown.push_back(column);
    }
  }
  return above + table_of(shown, rows).to_text();
}

std::string describe(const std::string& table, const DiffSummary& summary) {
  std::string text = fmt::format("{}: {} in both, {} only in A, {} only in B", table, summary.both,
                                 summary.only_a, summary.only_b);
  if (summary.changed_outcome > 0) text += fmt::format("; {} changed outcome", summary.changed_outcome);
  if (summary.timed > 0)
    text +=
        fmt::format("\n  time B/A: median {:.4f} of {}; {} faster, {} slower by more than 0.5 % and noise",
                    summary.median_ratio, summary.timed, summary.faster, summary.slower);
  return text + "\n";
}

/// Why nothing is in both, as far as one word says it: "protocol: 1 in A, 2 in B".
void explain_nothing(const std::string& table, const std::vector<DiffRow>& rows, const DiffSummary& summary) {
  if (summary.both > 0 || summary.only_a == 0 || summary.only_b == 0) return;
  for (const DiffColumn& column : columns()) {
    if (!column.place || column.column.key.starts_with("environment")) continue;
    std::set<std::string> values_a, values_b;
    for (const DiffRow& row : rows) (row.a ? values_a : values_b).insert(to_text(column.cell(row)));
    std::set<std::string> common;
    std::set_intersection(values_a.begin(), values_a.end(), values_b.begin(), values_b.end(),
                          std::inserter(common, common.end()));
    if (common.empty())
      base::note(fmt::format("note: no {} in common: {}: {} in A, {} in B", table, column.column.heading,
                             fmt::join(values_a, " / "), fmt::join(values_b, " / ")));
  }
}

/// Environments of one name, or the only ones, are counterparts; anything else has to be said.
void note_unpaired(const store::Contents& a, const store::Contents& b) {
  const std::set<std::string> in_a = measured_in(a), in_b = measured_in(b);
  if (in_a.empty() || in_b.empty() || (in_a.size() == 1 && in_b.size() == 1) || in_a == in_b) return;
  base::note(
      fmt::format("note: environments differ: {} in A, {} in B; only equal ones are compared. Name two with "
                  "--environment (of A) and --with-environment (of B)",
                  fmt::join(in_a, " "), fmt::join(in_b, " ")));
}

store::Contents contents_of(const std::string& file, const store::Selection& rows) {
  return store::TuningStore(file, {.access = store::Access::look}).contents(rows);
}

void show(const std::string& table, const std::vector<DiffRow>& rows) {
  const DiffSummary summary = summarize(rows);
  const std::string text = for_people(rows);
  print(text + (text.empty() ? "" : "\n") + describe(table, summary));
  explain_nothing(table, rows, summary);
}

}  // namespace

int db_diff(const DbArguments& arguments) {
  if (arguments.files.size() != 2)
    throw base::UsageError(
        "db diff: name two databases, A and B; the same twice to compare two of its environments");
  if (!arguments.table.empty() && arguments.table != "segments" && arguments.table != "plans")
    throw base::UsageError("db diff compares segments and plans: not --table " + arguments.table);
  const bool as_rows = arguments.output.wanted();
  if (as_rows && arguments.table.empty())
    throw base::UsageError("db diff: --csv and --json write one kind of rows: say which with --table");
  store::Selection of_b = arguments.rows;
  if (!arguments.with_environment.empty()) of_b.environment = arguments.with_environment;
  const store::Contents a = contents_of(arguments.files[0], arguments.rows);
  const store::Contents b = contents_of(arguments.files[1], of_b);
  note_unpaired(a, b);
  if (as_rows) {
    const auto rows = arguments.table == "plans" ? diff_plans(a, b) : diff_segments(a, b);
    if (arguments.output.write(table_of(columns(), rows))) return kDone;
  }
  print(fmt::format("A: {}\nB: {}\n\n", arguments.files[0], arguments.files[1]));
  if (arguments.table != "plans") show("segments", diff_segments(a, b));
  if (arguments.table.empty()) print("\n");
  if (arguments.table != "segments") show("plans", diff_plans(a, b));
  return kDone;
}

}  // namespace fusetune::cli
