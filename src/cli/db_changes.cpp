// db import, merge and prune: rows that come in and rows that go.
#include <fmt/core.h>

#include <chrono>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "block/problem.h"
#include "cli/command.h"
#include "cli/db_actions.h"
#include "cli/recorded_file.h"
#include "measure/outcome.h"
#include "model/training_data.h"
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

/// The research notes' lines begin with a digit or a comment, JSON lines with an object.
bool has_notes(std::string_view text) {
  text = base::without_byte_order_mark(text);
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos &&
         std::string_view("01#").find(text[first]) != std::string_view::npos;
}

/// The research notes' times say nothing of where they come from.
store::Contents read_notes(const DbArguments& arguments, const std::string& text, const std::string& file,
                           int& duplicates) {
  if (arguments.rows.problem.empty() || arguments.rows.environment.empty())
    throw base::UsageError(
        fmt::format("{} has masks and times only: say of which problem with --problem KEY (as `fusetune db "
                    "export` writes "
                    "it), and give where they were measured a name with --environment NAME",
                    file));
  const model::TrainingData data = model::parse_training_data(text, file);
  if (data.left_out() > 0) base::note(fmt::format("{}: {}", file, data.summary()));
  std::vector<std::pair<std::uint16_t, double>> times;
  for (const model::MeasuredMask& row : data.rows) times.emplace_back(row.mask.value, row.value);
  duplicates = data.duplicates;
  const std::string cache = arguments.rows.cache_mode.empty() ? "model" : arguments.rows.cache_mode;
  return store::contents_of_plan_times(block::Problem::parse(arguments.rows.problem).key(),
                                       arguments.rows.environment, cache, times, duplicates);
}

store::Contents read_contents(const DbArguments& arguments, const std::string& file, int& duplicates) {
  const std::string text = read_unpacked(file);
  if (has_notes(text)) return read_notes(arguments, text, file, duplicates);
  for (const std::string* given : {&arguments.rows.problem, &arguments.rows.environment})
    if (!given->empty())
      throw base::UsageError(fmt::format(
          "--problem and --environment belong to files of masks and times; the rows of {} say theirs", file));
  return store::parse_json_lines(base::without_byte_order_mark(text), file, duplicates);
}

/// A name for foreign times must not mix them with what was measured here.
void refuse_measured_environment(const DbArguments& arguments, const store::TuningStore& database,
                                 const store::Contents& contents) {
  if (arguments.rows.environment.empty()) return;
  for (const store::EnvironmentRecord& known :
       database.contents({.problem = {}, .environment = arguments.rows.environment}).environments)
    if (known.fingerprint == arguments.rows.environment &&
        known.fields != contents.environments.front().fields)
      throw base::UsageError(
          fmt::format("--environment {}: times were measured there; choose another name", known.fingerprint));
}

}  // namespace

int db_import(const DbArguments& arguments) {
  require_files(arguments, "import", "files that `fusetune db export` wrote");
  store::TuningStore database(arguments.file);
  for (const std::string& file : arguments.files) {
    int duplicates = 0;
    const store::Contents contents = read_contents(arguments, file, duplicates);
    refuse_measured_environment(arguments, database, contents);
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
