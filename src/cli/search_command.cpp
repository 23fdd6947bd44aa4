// search: finds the best plan for a problem.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/model_options.h"
#include "cli/problem_options.h"
#include "cli/replayed_search.h"
#include "cli/search_dry_run.h"
#include "cli/search_priors.h"
#include "cli/search_run.h"
#include "cli/session_options.h"
#include "search/plan_refinement.h"
#include "search/plan_strategy.h"
#include "search/strategy.h"

namespace fusetune::cli {
namespace {

std::string strategy_help() {
  std::string text = "how candidates are chosen";
  const char* separator = ": ";
  const auto add = [&](std::string_view name, std::string_view summary) {
    text += fmt::format("{}{} ({})", separator, name, summary);
    separator = "; ";
  };
  for (const search::StrategyInfo& row : search::strategies()) add(row.name, row.summary);
  for (const search::PlanStrategyInfo& row : search::plan_strategies()) add(row.name, row.summary);
  return text;
}

struct SearchArguments {
  std::string strategy = "guided";
  std::int64_t trials = 0, early_stop = 0;
  double time_limit = 0, epsilon = 0.02;
  std::string database = "fusetune.db";
  bool resume = false, fresh = false, verbose = false, dry_run = false;
  int finalists = 8, pairs = 0;
  std::string cost_model, json, replay;
  PriorRequest prior;
  SessionArguments session;
  ProblemOptions problem;

  void declare(Options& options) {
    options.text("--strategy", strategy, "NAME", strategy_help());
    options.integer(
        "--trials", trials, "N",
        "stop after N measured candidates (kernels, or plans where whole plans are timed); default: "
        "no limit",
        1);
    options.seconds("--time-limit", time_limit,
                    "stop compiling and measuring segments after so long (20, 20s, 5m); the best plans so "
                    "far are then timed (by `guided` for at least a fifth of it); default: no limit");
    options.integer("--early-stop", early_stop, "N",
                    "stop after N candidates without a better plan; default: no limit", 1);
    options.integer("--finalists", finalists, "N", "best plans, timed against each other", 1, 13);
    options.integer(
        "--pairs", pairs, "N",
        "alternating pairs per finalist; default: 160, down to 40 where they take over 30 s or --time-limit",
        20, 100000);
    options.number(
        "--epsilon", epsilon, "SHARE",
        "the certificate is closed where no plan can be faster by more than this share; `guided` then ends");
    options.text(
        "--cost-model", cost_model, "FILE",
        "begin with this model (`shipped`: the one inside the program, `none`): `mask` with one of whole "
        "plans, default none; `guided` with one of kernels (train --segments), default shipped and on a GPU "
        "none, if it ranks the kernels timed first well; both go on to fit their own");
    declare_prior_records(options, prior);
    options.text("--db", database, "FILE", "where measurements are kept");
    options.flag("--resume", resume, "go on from what the database has (the default)");
    options.flag("--fresh", fresh, "measure everything again");
    options.flag("--verbose", verbose, "also the best plan's schedules and every failed candidate");
    options.output("--json", json, "the result as JSON");
    options.text("--replay", replay, "FILE",
                 "measure nothing: the strategy gets its times from this database (or .jsonl, .jsonl.gz of "
                 "`db export`), and the answer says what it missed");
    options.flag("--dry-run", dry_run,
                 "only say what the search would measure and compile, how long that takes and where these "
                 "figures come from: nothing is compiled, run or stored");
    options.footnote(
        "--dry-run takes seconds from earlier searches in the database on this device, else a lower bound "
        "from "
        "the timing protocol; what nothing recorded tells is `not known` (docs/method.md). A search ends "
        "with "
        "what was predicted for it beside what it took.");
    session.declare(options, Devices::several);
    problem.declare(options);
  }

  /// Throws base::UsageError where the strategy has no use for what was given to begin with.
  void check_beginning() const {
    const search::PlanStrategyInfo* const plans = search::find_plan_strategy(strategy);
    const bool takes_priors = search::takes_priors(strategy);
    if (!cost_model.empty() && !takes_priors && !(plans != nullptr && plans->needs_model))
      throw base::UsageError("--cost-model: strategy " + strategy + " uses no model; `mask` and `guided` do");
    if (!(prior.records + prior.environment).empty() && !takes_priors)
      throw base::UsageError("--prior-from: strategy " + strategy +
                             " begins with nothing of another device; `guided` does");
    if (!prior.environment.empty() && prior.records.empty())
      throw base::UsageError("--prior-environment chooses one of the devices in --prior-from FILE");
  }

  /// Something was given that knows kernels.
  bool begins_with_kernels() const {
    return search::takes_priors(strategy) && !(prior.records + cost_model).empty();
  }

  /// What a strategy over whole plans begins with.
  std::optional<model::CostModel> plan_model() const {
    if (cost_model.empty() || cost_model == kNoModel || search::takes_priors(strategy)) return std::nullopt;
    return load_model(cost_model);
  }

  /// None for a strategy that takes none.
  search::Priors priors(const store::EnvironmentRecord& here, const std::string& cache_mode) const {
    if (!search::takes_priors(strategy)) return {};
    PriorRequest request = prior;
    request.model = cost_model;
    return make_priors(request, problem.problem(), here, cache_mode);
  }

  search::StopConditions stop(const Options& options) const {
    search::StopConditions conditions;
    if (options.given("--trials")) conditions.trials = trials;
    if (options.given("--time-limit")) conditions.seconds = time_limit;
    if (options.given("--early-stop")) conditions.early_stop = early_stop;
    conditions.check();
    return conditions;
  }
};

/// Throws base::UsageError for a name that no strategy has, with the nearest.
void check_strategy(const std::string& name) {
  std::vector<std::string_view> names;
  for (const search::StrategyInfo& row : search::strategies()) names.push_back(row.name);
  for (const search::PlanStrategyInfo& row : search::plan_strategies()) names.push_back(row.name);
  if (std::find(names.begin(), names.end(), name) != names.end()) return;
  const std::string near = base::nearest(name, names);
  throw base::UsageError(fmt::format("--strategy {}: no such strategy{}; there are {}", name,
                                     near.empty() ? "" : "; did you mean `" + near + "`?",
                                     fmt::join(names, ", ")));
}

/// Where --trials pays for few kernels, plans made of them would be few: `guided` times whole plans from the
/// start then, which is said.
std::string strategy_within_budget(const SearchArguments& arguments, const Options& options) {
  const search::StrategyInfo* const strategy = search::find_strategy(arguments.strategy);
  const bool small =
      options.given("--trials") && !search::pays_for_segments(static_cast<double>(arguments.trials), 1);
  if (strategy == nullptr || !strategy->refines_plans || !small) return arguments.strategy;
  base::note(fmt::format(
      "note: --trials {} does not pay for {} kernels and plans of them: `{}` times whole plans, as `{}`{}",
      arguments.trials, plan::kVariantCount, arguments.strategy, search::kSmallBudgetStrategy,
      arguments.begins_with_kernels() ? "; what is known of kernels is no help there" : ""));
  return std::string(search::kSmallBudgetStrategy);
}

SearchRequest request_of(const SearchArguments& arguments, const Options& options) {
  static constexpr std::array<std::string_view, 1> kDatabase = {"--db"};
  static constexpr std::array<std::string_view, 10> kSearch = {
      "--strategy", "--trials",  "--time-limit", "--early-stop", "--finalists",
      "--pairs",    "--epsilon", "--cost-model", "--prior-from", "--prior-environment"};
  static constexpr std::array<std::string_view, 5> kGenerate = {"--isa", "--threads", "--cxx", "--kernel-dir",
                                                                "--db"};
  const std::string problem = arguments.problem.command_line();
  return {.strategy = strategy_within_budget(arguments, options),
          .stop = arguments.stop(options),
          .fresh = arguments.fresh,
          .finalists = arguments.finalists,
          .pairs = arguments.pairs,
          .epsilon = arguments.epsilon,
          .initial_model = arguments.plan_model(),
          .database = arguments.database,
          .command = options.whole_command(),
          .json = arguments.json,
          .verbose = arguments.verbose,
          .quiet = options.given("--quiet"),
          .problem_and_device = problem + arguments.session.command_line(),
          .database_option = options.command_line(kDatabase),
          .search_options = options.command_line(kSearch),
          .problem_and_devices = problem + arguments.session.command_line(Devices::several),
          .generate_options = arguments.session.on_gpu()
                                  ? std::nullopt  // it has no way to be told a GPU's recorded schedules
                                  : std::optional(problem + options.command_line(kGenerate))};
}

int run_replay(const SearchArguments& arguments, const Options& options) {
  const measure::SessionOptions session = arguments.session.session(arguments.problem);
  const std::string cache_mode(measure::name(session.cache));
  const ReplayRequest request{
      .file = arguments.replay,
      .strategy = arguments.strategy,
      .problem = arguments.problem.problem(),
      .cache_mode = cache_mode,
      .stop = arguments.stop(options),
      .priors = [&](const store::EnvironmentRecord& here) { return arguments.priors(here, cache_mode); }};
  report_replay(replay_recorded(request), request, arguments.json);
  return kDone;
}

}  // namespace

int run_search(Options& options) {
  SearchArguments arguments;
  arguments.declare(options);
  options.parse();
  if (arguments.resume && arguments.fresh) throw base::UsageError("--resume and --fresh exclude each other");
  arguments.stop(options);
  check_strategy(arguments.strategy);  // before any work
  arguments.check_beginning();
  if (arguments.dry_run && !arguments.replay.empty())
    throw base::UsageError(
        "--dry-run and --replay exclude each other: a replay compiles and measures nothing");
  if (!arguments.replay.empty()) return run_replay(arguments, options);
  SearchRequest request = request_of(arguments, options);

  const block::Problem problem = arguments.problem.problem();
  measure::SessionOptions session_options = arguments.session.session(arguments.problem);
  session_options.runs = !arguments.dry_run;
  session_options.prepared = false;  // a search may know all its times
  catch_interrupts();
  measure::Session session(problem, session_options);
  stop_if_interrupted();
  if (search::takes_priors(request.strategy))
    request.priors = arguments.priors({session.environment().fingerprint, session.environment().fields},
                                      std::string(measure::name(session_options.cache)));
  if (arguments.dry_run) return dry_run(request, session, session_options);
  return find_best_plan(std::move(request), session, session_options);
}

}  // namespace fusetune::cli
