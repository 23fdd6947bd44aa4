// db import, merge and prune: rows that come in and rows that go.
#include <fmt/core.h>

#include <chrono>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/db_actions.h"
#include "measure/outcome.h"
#include "store/json_lines.h"
#include "store/tuning_store.h"

namespace fusetune::cli {
namespace {

constexpr std::int64_t kSecondsPerDay = 24 * 3600;

std::string plural(std::int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string describe(const store::Absorbed::Table& table, std::string_view noun) {
  std::string text = fmt::format("{} added", plural(table.added, noun));
  if (table.replaced > 0) text += fmt::format(", {} replaced", table.replaced);
  if (table.kept > 0) text += fmt::format(", {} already there", table.kept);
  if (table.held > 0) text += fmt::format(", {} left to a search that is measuring them", table.held);
  return text;
}

void say(const std::string& file, const store::Absorbed& absorbed) {
  print(fmt::format("{}: {}; {}; {}; {}\n", file, describe(absorbed.segments, "segment"),
                    describe(absorbed.plans, "plan"), describe(absorbed.runs, "search run"),
                    plural(absorbed.comparisons, "comparison") + " added"));
}

void require_files(const DbArguments& arguments, const char* action, const char* what) {
  if (arguments.files.empty()) throw base::UsageError(fmt::format("db {}: name {}", action, what));
}

/// "failed" is everything that went wrong for good.
std::vector<measure::Outcome> outcomes_of(const std::string& text) {
  using measure::Outcome;
  if (text.empty()) return {};
  if (text != "failed") return {measure::parse_outcome(text)};
  return {Outcome::illegal, Outcome::compile_failed, Outcome::resource_limit, Outcome::launch_failed,
          Outcome::crashed, Outcome::timeout,        Outcome::wrong_result};
}

store::Pruning pruning_of(const DbArguments& arguments) {
  store::Pruning pruning;
  pruning.rows = arguments.rows;
  pruning.outcomes = outcomes_of(arguments.outcome);
  pruning.protocol_before = arguments.protocol_before;
  if (arguments.older_than_days >= 0) {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    pruning.before = std::chrono::duration_cast<std::chrono::seconds>(now).count() -
                     arguments.older_than_days * kSecondsPerDay;
  }
  return pruning;
}

}  // namespace

int db_import(const DbArguments& arguments) {
  require_files(arguments, "import", "files that `fusetune db export` wrote");
  store::TuningStore database(arguments.file);
  for (const std::string& file : arguments.files) {
    int duplicates = 0;
    const store::Contents contents = store::parse_json_lines(base::read_file(file), file, duplicates);
    if (duplicates > 0)
      base::note(fmt::format("note: {}: {} of one candidate: the fastest counts", file,
                             plural(duplicates, "further line")));
    say(file, database.absorb(contents));
  }
  return kDone;
}

int db_merge(const DbArguments& arguments) {
  require_files(arguments, "merge", "other databases");
  std::vector<store::TuningStore> sources;
  for (const std::string& file : arguments.files) {
    std::error_code not_there;
    if (std::filesystem::equivalent(file, arguments.file, not_there))
      throw base::UsageError(fmt::format("db merge: {} is the database itself", file));
    sources.emplace_back(file, store::StoreOptions{.access = store::Access::copy});
  }
  // Nothing is taken over before all of them could be read.
  store::TuningStore database(arguments.file);
  for (const store::TuningStore& source : sources)
    say(source.path().string(), database.absorb(source.contents()));
  return kDone;
}

int db_prune(const DbArguments& arguments) {
  const store::Pruning pruning = pruning_of(arguments);
  if (!pruning.any())
    throw base::UsageError(
        "db prune: say what to remove: --older-than, --problem, --environment, --cache, --outcome or "
        "--protocol-before");
  store::TuningStore database(arguments.file, {.access = store::Access::existing});
  const store::Pruned pruned = database.prune(pruning, arguments.dry_run);
  report::Table table({{"table", arguments.dry_run ? "would remove" : "removed"}, {"count", "count"}});
  table.add({"segments", pruned.segments});
  table.add({"plans", pruned.plans});
  table.add({"search runs", pruned.runs});
  table.add({"comparisons of finalists", pruned.comparisons});
  table.add({"problems", pruned.problems});
  table.add({"environments", pruned.environments});
  if (pruned.held > 0)
    base::note(fmt::format("note: {} left alone: a search is at work on them", plural(pruned.held, "row")));
  if (!arguments.output.write(table)) print(table.to_text());
  return kDone;
}

}  // namespace fusetune::cli
