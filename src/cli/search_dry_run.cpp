#include "cli/search_dry_run.h"

#include <fmt/core.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/problem_options.h"
#include "cli/reference_plan.h"
#include "cli/replayed_search.h"
#include "cli/search_budget.h"
#include "cli/session_options.h"
#include "search/plan_strategy.h"

namespace fusetune::cli {
namespace {

/// The database to read, or an empty one in its place.
class DatabaseToRead {
 public:
  explicit DatabaseToRead(const std::string& file)
      : exists_(std::filesystem::exists(file)),
        store_(exists_ ? store::TuningStore(file, {.access = store::Access::look})
                       : store::TuningStore(empty_.path() / "empty.db")) {}
  bool exists() const { return exists_; }
  store::TuningStore& store() { return store_; }

 private:
  bool exists_;
  base::TemporaryDirectory empty_;
  store::TuningStore store_;
};

/// The strategy on what is recorded of the problem, with as many trials as this search would have results;
/// nullopt: nothing recorded makes a plan.
std::optional<ReplayedSearch> replay(const SearchRequest& request, const Budget& budget,
                                     const measure::Session& session, const SearchSettings& settings) {
  const bool whole = search::find_plan_strategy(request.strategy) != nullptr;
  const std::int64_t trials = whole ? budget.plans : budget.kernels;
  if (trials == 0) return std::nullopt;
  try {
    return replay_recorded({.file = request.database,
                            .strategy = request.strategy,
                            .problem = session.problem(),
                            .cache_mode = settings.cache_mode,
                            .stop = {.trials = trials, .seconds = {}, .early_stop = {}},
                            .priors = [&](const auto& /*here*/) { return request.priors; }});
  } catch (const base::UsageError&) {  // no plan, or of several devices
    return std::nullopt;
  }
}

std::string regret_line(const std::optional<ReplayedSearch>& replayed) {
  if (!replayed) return "  regret      not known: no recorded plans\n";
  return fmt::format(
      "  regret      {:.2f} %  ({} trials replayed, against the best of the {} recorded in environment {})\n",
      100 * replayed->regret(), replayed->trials, replayed->recorded, replayed->environment);
}

nlohmann::json regret_json(const std::optional<ReplayedSearch>& replayed) {
  if (!replayed) return nullptr;
  return {{"regret", replayed->regret()},
          {"trials", replayed->trials},
          {"recorded", replayed->recorded},
          {"environment", replayed->environment}};
}

}  // namespace

int dry_run(const SearchRequest& request, measure::Session& session,
            const measure::SessionOptions& session_options) {
  const AllFusedReference reference(session);
  const SearchSettings settings = search_settings(request, session_options, reference.hash());
  DatabaseToRead database(request.database);
  const Budget budget =
      predict_budget(request.strategy, session, session_options, database.store(), settings);
  const auto replayed = database.exists() ? replay(request, budget, session, settings) : std::nullopt;

  const nlohmann::json json = {{"state", "dry run"},
                               {"strategy", request.strategy},
                               {"problem", session.problem().key()},
                               {"environment", session.environment().fingerprint},
                               {"database", request.database},
                               {"predicted", to_json(budget)},
                               {"regret", regret_json(replayed)}};
  const std::string result = json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  if (request.json == "-") {
    print(result);
    return kDone;
  }
  print(fmt::format("{}      {}\nsearch --strategy {}, predicted: nothing was compiled, run or stored\n{}{}",
                    describe(session.problem()), describe(session.environment()), request.strategy,
                    describe(budget), regret_line(replayed)));
  if (!request.json.empty()) base::write_file_atomic(request.json, result);
  return kDone;
}

}  // namespace fusetune::cli
