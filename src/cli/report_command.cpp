// report: a search as one HTML page.
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/recorded_file.h"
#include "report/search_page.h"
#include "store/tuning_store.h"

namespace fusetune::cli {
namespace {

/// Run `number`; 0: the newest finished one, else the newest.
store::RunRecord choose_run(const store::TuningStore& store, const std::string& file, std::int64_t number) {
  const std::vector<store::RunRecord> runs = store.runs();  // newest first
  if (runs.empty()) throw base::UsageError(file + " has no search: run fusetune search first");
  const auto found = std::find_if(runs.begin(), runs.end(), [&](const store::RunRecord& run) {
    return number == 0 ? run.state == store::RunState::finished : run.id == number;
  });
  if (found != runs.end()) return *found;
  if (number == 0) return runs.front();
  throw base::UsageError(
      fmt::format("--run {}: {} has no such run; its newest is {}", number, file, runs.front().id));
}

}  // namespace

int run_report(Options& options) {
  std::string database = "fusetune.db", out = "report.html";
  std::int64_t run = 0;
  options.text("--db", database, "FILE", "database, or what `db export` wrote (.jsonl, .jsonl.gz)");
  options.integer("--run", run, "N", "the search; default: the newest that finished", 1);
  options.text("--out", out, "FILE", "the page; - is standard output");
  options.parse();

  if (!std::filesystem::exists(database))
    throw base::UsageError(
        fmt::format("no file {}: run fusetune search, or name a database with --db", database));
  const RecordedFile recorded(database);
  const store::TuningStore store(recorded.database(), {.access = store::Access::look});
  const store::RunRecord chosen = choose_run(store, database, run);
  const std::string page = report::search_page(
      store.contents({.problem = chosen.problem, .environment = chosen.environment, .cache_mode = {}}),
      chosen);
  if (out == "-") {
    print(page);
  } else {
    base::write_file_atomic(out, page);
    print(fmt::format("run {} of {}: {}\n", chosen.id, database, out));
  }
  return kDone;
}

}  // namespace fusetune::cli
