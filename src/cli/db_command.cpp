// db: looks at recorded measurements.
#include <fmt/core.h>

#include "base/error.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/output.h"
#include "store/tuning_store.h"

namespace fusetune::cli {
namespace {

int show_stats(const std::string& file, const RowsOutput& output) {
  const store::TuningStore database(file, {.access = store::Access::existing});
  const store::StoreStats stats = database.stats();
  report::Table table({{"what", "what"}, {"count", "count"}});
  table.add({"problems", stats.problems});
  table.add({"environments", stats.environments});
  table.add({"search runs", stats.runs});
  for (const auto& [outcome, count] : stats.segments_by_outcome) table.add({"segments " + outcome, count});
  table.add({"plans", stats.plans});
  table.add({"comparisons of finalists", stats.comparisons});
  table.add({"bytes", stats.bytes});
  table.add({"schema version", std::int64_t{stats.schema_version}});
  if (output.write(table)) return kDone;
  print(fmt::format("{}   journal mode {}\n{}", file, stats.journal_mode, table.to_text()));
  return kDone;
}

int check(const std::string& file, const RowsOutput& output) {
  std::vector<std::string> problems;
  try {
    problems = store::TuningStore(file, {.access = store::Access::existing}).check();
  } catch (const store::DamagedFile& damaged) {
    problems.emplace_back(damaged.what());  // so damaged that it does not open: that is the answer
  }
  report::Table table(std::vector<report::Column>{{"problem", "problem"}});
  for (const std::string& problem : problems) table.add({problem});
  const int code = problems.empty() ? kDone : kBadAnswer;
  if (output.write(table)) return code;
  print(problems.empty() ? file + ": sound\n" : table.to_text());
  return code;
}

[[noreturn]] void refuse(const std::string& action) {
  static constexpr std::string_view kActions[] = {"stats", "check", "export", "import",
                                                  "merge", "prune", "diff"};
  for (const std::string_view later : kActions) {
    if (later == action)
      throw base::UsageError("db " + action + ": a later version brings it; this one has stats and check");
  }
  const std::string near = base::nearest(action, kActions);
  throw base::UsageError("db " + action + ": expected stats or check" +
                         (near.empty() ? "" : "; did you mean `" + near + "`?"));
}

}  // namespace

int run_db(Options& options) {
  std::string action, file = "fusetune.db";
  RowsOutput output;
  options.positional("ACTION", action, "stats: what is recorded; check: whether the file is sound");
  options.text("--db", file, "FILE", "the database");
  output.declare(options);
  options.parse();
  output.check();
  if (action == "stats") return show_stats(file, output);
  if (action == "check") return check(file, output);
  refuse(action);
}

}  // namespace fusetune::cli
