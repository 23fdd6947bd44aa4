// db: looks at recorded measurements; export, import, merge, prune and diff are in files of their own.
#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/db_actions.h"
#include "cli/output.h"
#include "store/tuning_store.h"

namespace fusetune::cli {
namespace {

int show_stats(const std::string& file, const RowsOutput& output) {
  const store::TuningStore database(file, {.access = store::Access::look});
  const store::StoreStats stats = database.stats();
  report::Table table({{"what", "what"}, {"count", "count"}});
  table.add({"problems", stats.problems});
  table.add({"environments", stats.environments});
  table.add({"search runs", stats.runs});
  for (const auto& [outcome, count] : stats.segments_by_outcome) table.add({"segments " + outcome, count});
  for (const auto& [outcome, count] : stats.plans_by_outcome) table.add({"plans " + outcome, count});
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
    problems = store::TuningStore(file, {.access = store::Access::look}).check();
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

int stats(const DbArguments& arguments) { return show_stats(arguments.file, arguments.output); }
int check_file(const DbArguments& arguments) { return check(arguments.file, arguments.output); }

struct Action {
  std::string_view name;
  int (*run)(const DbArguments& arguments);
  bool takes_files;
  std::vector<std::string_view> options;  // besides --db: others mean nothing to it
};

std::span<const Action> actions() {
  static const std::array<Action, 7> kActions = {{
      {"stats", stats, false, {"--json", "--csv"}},
      {"check", check_file, false, {"--json", "--csv"}},
      {"export",
       db_export,
       false,
       {"--json", "--csv", "--jsonl", "--format", "--table", "--problem", "--environment", "--cache"}},
      {"import", db_import, true, {"--problem", "--environment", "--cache"}},
      {"merge", db_merge, true, {}},
      {"prune",
       db_prune,
       false,
       {"--json", "--csv", "--problem", "--environment", "--cache", "--older-than", "--outcome",
        "--protocol-before", "--dry-run"}},
      {"diff",
       db_diff,
       true,
       {"--json", "--csv", "--table", "--problem", "--environment", "--with-environment", "--cache"}},
  }};
  return kActions;
}

const Action& find_action(const std::string& word) {
  std::vector<std::string_view> names;
  std::string list;
  for (const Action& action : actions()) {
    if (action.name == word) return action;
    names.push_back(action.name);
    list += (list.empty() ? "" : ", ") + std::string(action.name);
  }
  const std::string near = base::nearest(word, names);
  throw base::UsageError("db " + word + ": expected one of " + list +
                         (near.empty() ? "" : "; did you mean `" + near + "`?"));
}

void refuse_what_means_nothing(const Action& action, const Options& options, const DbArguments& arguments) {
  if (action.run == db_diff && options.given("--db"))
    throw base::UsageError("db diff: names its two databases after the word; --db means nothing to it");
  if (!action.takes_files && !arguments.files.empty())
    throw base::UsageError(fmt::format("db {}: takes no file; --db names the database, not `{}`", action.name,
                                       arguments.files.front()));
  for (const Action& other : actions()) {
    for (const std::string_view option : other.options) {
      const bool known =
          std::find(action.options.begin(), action.options.end(), option) != action.options.end();
      if (!known && options.given(option))
        throw base::UsageError(fmt::format("{} means nothing to db {}", option, action.name));
    }
  }
}

}  // namespace

int run_db(Options& options) {
  std::string action_name;
  DbArguments arguments;
  options.positional("ACTION", action_name,
                     "stats: what is recorded; check: whether the file is sound; export, import: rows to and "
                     "from files; merge: rows of other databases; prune: removes rows; diff: times of two "
                     "databases side by side");
  options.positionals("FILE", arguments.files, "for import, merge and diff (two)", false);
  options.text("--db", arguments.file, "FILE", "the database");
  arguments.output.declare(options);
  options.output("--jsonl", arguments.json_lines,
                 "export as JSON lines, which import reads (the default); --jsonl=FILE writes to FILE");
  options.choice("--format", arguments.format, {"notes"},
                 "export whole plans as the research notes keep them: bits and milliseconds");
  options.choice("--table", arguments.table, {"segments", "plans", "runs", "comparisons"},
                 "export or compare only these rows");
  options.text("--problem", arguments.rows.problem, "KEY",
               "export, prune or compare only this problem; import masks and times as this one's");
  options.text(
      "--environment", arguments.rows.environment, "FINGERPRINT",
      "export, prune or compare only environments whose fingerprint begins so; import: a name for where "
      "masks and times come from");
  options.text("--with-environment", arguments.with_environment, "FINGERPRINT",
               "compare with this environment of the second database; default: that of --environment");
  options.choice("--cache", arguments.rows.cache_mode, {"model", "warm", "cold"},
                 "export, prune or compare only measurements of this cache mode; import as such");
  options.integer("--older-than", arguments.older_than_days, "DAYS", "prune what was made before", 0,
                  100'000);
  options.text("--outcome", arguments.outcome, "OUTCOME",
               "prune measurements that ended so: noisy, timeout, ...; failed: all that went wrong");
  options.integer("--protocol-before", arguments.protocol_before, "N",
                  "prune measurements of timing protocols older than N", 1);
  options.flag("--dry-run", arguments.dry_run, "only say how much prune would remove");
  options.parse();
  arguments.output.check();
  const Action& action = find_action(action_name);
  refuse_what_means_nothing(action, options, arguments);
  return action.run(arguments);
}

}  // namespace fusetune::cli
