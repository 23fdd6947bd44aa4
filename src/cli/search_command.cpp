// search: finds the best plan for a problem.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/final_comparison.h"
#include "cli/guided_search.h"
#include "cli/interrupt.h"
#include "cli/model_options.h"
#include "cli/output.h"
#include "cli/plan_search.h"
#include "cli/problem_options.h"
#include "cli/reference_plan.h"
#include "cli/replayed_search.h"
#include "cli/search_report.h"
#include "cli/segment_search.h"
#include "cli/session_options.h"
#include "search/plan_model.h"
#include "search/segment_model.h"
#include "search/tile_tuning.h"

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
  std::string strategy = "exhaustive";
  std::int64_t trials = 0, early_stop = 0;
  double time_limit = 0, epsilon = 0.02;
  std::string database = "fusetune.db";
  bool resume = false, fresh = false, verbose = false;
  int finalists = 8, pairs = 0;
  std::string cost_model, json, replay;
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
    options.integer("--pairs", pairs, "N",
                    "alternating pairs per finalist; default: 160, down to 40 where a plan takes long", 20,
                    100000);
    options.number("--epsilon", epsilon, "SHARE",
                   "the certificate is closed where no plan can be faster by more than this share");
    options.text(
        "--cost-model", cost_model, "FILE",
        "begin with this model of whole plans (`shipped`: the one inside the program); default: none, "
        "the search fits its own");
    options.text("--db", database, "FILE", "where measurements are kept");
    options.flag("--resume", resume, "go on from what the database has (the default)");
    options.flag("--fresh", fresh, "measure everything again");
    options.flag("--verbose", verbose, "also the best plan's schedules and every failed candidate");
    options.output("--json", json, "the result as JSON");
    options.text("--replay", replay, "FILE",
                 "measure nothing: the strategy gets its times from this database (or .jsonl, .jsonl.gz of "
                 "`db export`), and the answer says what it missed");
    for (const char* later : {"--dry-run", "--device"}) options.later(later);
    session.declare(options);
    problem.declare(options);
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

/// What a run's row says of how it was made: program, command, and what decides what was measured how. JSON.
std::string provenance(const SearchArguments& arguments, const Options& options,
                       const measure::SessionOptions& session, const SearchSettings& settings) {
  const auto given = [](const auto& limit) { return limit ? nlohmann::json(*limit) : nlohmann::json(); };
  const nlohmann::ordered_json json = {{"fusetune", FUSETUNE_VERSION},
                                       {"command", options.whole_command()},
                                       {"strategy", arguments.strategy},
                                       {"pairs", arguments.pairs},
                                       {"finalists", arguments.finalists},
                                       {"fresh", arguments.fresh},
                                       {"samples", session.samples},
                                       {"min_time_s", session.min_sample_seconds},
                                       {"trials", given(settings.stop.trials)},
                                       {"time_limit_s", given(settings.stop.seconds)},
                                       {"early_stop", given(settings.stop.early_stop)},
                                       // As in the rows that it measures:
                                       {"data", settings.data},
                                       {"cache_mode", settings.cache_mode},
                                       {"protocol", measure::kProtocolVersion},
                                       {"settings", settings.timing}};
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);  // paths may be no UTF-8
}

/// A search from its open database to its last word.
class Search {
 public:
  Search(const SearchArguments& arguments, const Options& options, measure::Session& session,
         const measure::SessionOptions& session_options, std::optional<model::CostModel> initial_model)
      : arguments_(arguments),
        quiet_(options.given("--quiet")),
        session_(session),
        store_(arguments.database),
        reference_(session),
        initial_model_(std::move(initial_model)) {
    const std::string problem_and_device =
        arguments.problem.command_line() + arguments.session.command_line();
    report_.problem_line = describe(session.problem());
    report_.environment_line = describe(session.environment());
    report_.problem_key = session.problem().key();
    report_.fingerprint = session.environment().fingerprint;
    report_.options = problem_and_device + options.command_line(std::array<std::string_view, 1>{"--db"});
    static constexpr std::array<std::string_view, 3> kSearch = {"--strategy", "--finalists", "--pairs"};
    report_.search_options = options.command_line(kSearch);
    static constexpr std::array<std::string_view, 5> kGenerate = {"--isa", "--threads", "--cxx",
                                                                  "--kernel-dir", "--db"};
    report_.generate_options = arguments.problem.command_line() + options.command_line(kGenerate);
    report_.database = arguments.database;
    report_.verbose = arguments.verbose;
    report_.epsilon = arguments.epsilon;
    if (const int dead = store_.recover_abandoned(); dead > 0) {
      base::note(fmt::format(
          "note: {} candidate{} of a search that was killed count{} as crashed, and will be tried once more",
          dead, dead == 1 ? "" : "s", dead == 1 ? "s" : ""));
    }
    settings_ = {
        .stop = arguments.stop(options),
        .fresh = arguments.fresh,
        .finalists = arguments.finalists,
        .pairs = arguments.pairs,
        .cache_mode = std::string(measure::name(session_options.cache)),
        .timing = store::settings_text(session_options.samples, session_options.min_sample_seconds,
                                       reference_.hash()),
        .timing_alone = store::settings_text(session_options.samples, session_options.min_sample_seconds),
        .limits = {session_options.compile_timeout, session_options.run_timeout},
        .data = data_identity(session_options),
        .repeat_options = problem_and_device};
    report_.run = store_.begin_run(report_.problem_key, {report_.fingerprint, session.environment().fields},
                                   provenance(arguments, options, session_options, settings_));
    session.time_beside([this] {
      const auto known = store_.reference_time(report_.problem_key, report_.fingerprint, settings_.cache_mode,
                                               settings_.timing);
      return measure::TimingReference{reference_.compile(), known.value_or(0), [this](double us) {
                                        return store_.agree_on_reference_time(
                                            report_.problem_key, report_.fingerprint, settings_.cache_mode,
                                            settings_.timing, us);
                                      }};
    });
  }

  int run() {
    try {
      SearchProgress progress(quiet_);
      if (const auto* plans = search::find_plan_strategy(arguments_.strategy)) {
        search_plans(*plans, progress);
      } else {
        run(segment_searcher(), progress);
      }
      const std::vector<search::Finalist> finalists = searcher_->finalists();
      if (finalists.empty())
        return nothing(report_.stopped.empty()
                           ? "no complete plan has a valid kernel for each of its segments"
                           : "it stopped before some plan had a valid kernel for each of its segments");
      progress.say(fmt::format("timing {} plan{} whole", finalists.size(), finalists.size() == 1 ? "" : "s"));
      const std::optional<FinalResult> result =
          FinalComparison(session_, store_, report_.run, settings_, progress)
              .time(finalists, [this](int variant) { return searcher_->schedule(variant); });
      progress.clear();
      if (!result) return nothing("no finalist gave the right result when run as a whole");
      return found(*result);
    } catch (const Interrupted&) {
      end_interrupted();
      throw;
    } catch (...) {
      store_.finish_run(report_.run, store::RunState::failed, "", "");
      throw;
    }
  }

 private:
  std::uint64_t seed() const { return session_.problem().seed; }

  std::unique_ptr<Searcher> segment_searcher() {
    const search::Space space = search::segment_space(session_.problem(), session_.target());
    auto strategy = search::make_strategy(arguments_.strategy, space, seed(), &segment_model());
    if (search::find_strategy(arguments_.strategy)->refines_plans)
      return std::make_unique<GuidedSearch>(session_, store_, report_.run, settings_, std::move(strategy),
                                            seed());
    return std::make_unique<SegmentSearch>(session_, store_, report_.run, settings_, std::move(strategy));
  }

  /// The stage that is now the search's last.
  void run(std::unique_ptr<Searcher> searcher, SearchProgress& progress) {
    const double before = report_.seconds;
    searcher_ = std::move(searcher);
    report_.stopped = searcher_->run(progress);
    progress.clear();
    report_.seconds = before + searcher_->seconds();
  }

  /// Tiles on the GEMMs alone, then whole plans with them.
  void search_plans(const search::PlanStrategyInfo& strategy, SearchProgress& progress) {
    const search::Space space = search::segment_space(session_.problem(), session_.target());
    tuning_settings_ = settings_;
    tuning_settings_.stop = {.trials = {}, .seconds = settings_.stop.seconds, .early_stop = {}};
    auto tuning = std::make_unique<SegmentSearch>(session_, store_, report_.run, tuning_settings_,
                                                  std::make_unique<search::TileTuning>(space, seed()));
    const SegmentSearch& tuned = *tuning;
    run(std::move(tuning), progress);
    if (!report_.stopped.empty()) return;
    VariantSchedules schedules = choose_schedules(session_, store_, settings_, tuned.best());
    plans_ = runnable_plans(schedules);
    if (settings_.stop.seconds)  // at least one plan
      settings_.stop.seconds = std::max(1e-3, *settings_.stop.seconds - report_.seconds);
    const std::int64_t trials = settings_.stop.trials.value_or(0);
    const search::PlanSpace plan_space{plans_, trials > 0 ? trials + known_plans() : 0,
                                       strategy.needs_model ? &plan_model() : nullptr};
    run(std::make_unique<PlanSearch>(session_, store_, report_.run, settings_, std::move(schedules),
                                     strategy.make(plan_space, seed())),
        progress);
  }

  /// Plans that earlier searches timed under these settings: they will be asked for again, and cost no trial.
  std::int64_t known_plans() const {
    const auto records = store_.plan_records(report_.problem_key, report_.fingerprint, settings_.cache_mode);
    return std::count_if(records.begin(), records.end(), [&](const store::PlanRecord& record) {
      return record.settings == settings_.timing && record.sampled != store::Sampled::finalist;
    });
  }

  search::SegmentModel& segment_model() {
    model::TrainOptions options;
    options.seed = seed();
    segment_model_ =
        std::make_unique<search::FittedSegmentModel>(session_.problem(), session_.target(), options);
    return *segment_model_;
  }

  search::PlanModel& plan_model() {
    model::TrainOptions options;
    options.seed = seed();
    model_ =
        std::make_unique<search::FittedPlanModel>(session_.problem(), options, std::move(initial_model_));
    return *model_;
  }

  /// How good the model is that was fitted, if one was.
  void score_model() {
    model::Evaluation evaluation;
    if (segment_model_ && segment_model_->ready()) {
      evaluation = segment_model_->evaluate();
      report_.model_of = "kernels";
    } else if (model_) {
      evaluation = model_->evaluate();
      report_.model_of = "plans";
    }
    if (!evaluation.groups.empty()) report_.model = evaluation.groups.front();
  }

  int found(const FinalResult& result) {
    score_model();
    const std::string json = result_json(report_, *searcher_, &result, "finished");
    store_.finish_run(report_.run, store::RunState::finished, json, result.hash);
    say(describe_result(report_, *searcher_, result), json);
    return kDone;
  }

  int nothing(const std::string& why) {
    const std::string json = result_json(report_, *searcher_, nullptr, "nothing");
    store_.finish_run(report_.run, store::RunState::failed, json, "");
    say(describe_nothing(report_, *searcher_, why), json);
    return kBadAnswer;
  }

  void end_interrupted() {
    if (searcher_ == nullptr) {  // before anything was measured
      store_.finish_run(report_.run, store::RunState::interrupted, "", "");
      return;
    }
    if (report_.seconds == 0) report_.seconds = searcher_->seconds();
    const std::string json = result_json(report_, *searcher_, nullptr, "interrupted");
    store_.finish_run(report_.run, store::RunState::interrupted, json, "");
    say(describe_interrupted(report_, *searcher_), json);
    flush_output();
  }

  void say(const std::string& text, const std::string& json) const {
    if (arguments_.json == "-") {
      print(json);
      return;
    }
    print(text);
    flush_output();  // whatever happens to the file
    if (!arguments_.json.empty()) base::write_file_atomic(arguments_.json, json);
  }

  const SearchArguments& arguments_;
  bool quiet_;
  measure::Session& session_;
  store::TuningStore store_;
  AllFusedReference reference_;
  SearchReport report_;
  SearchSettings settings_, tuning_settings_;
  std::vector<plan::FusionPlan> plans_;
  std::optional<model::CostModel> initial_model_;
  std::unique_ptr<search::FittedPlanModel> model_;
  std::unique_ptr<search::FittedSegmentModel> segment_model_;
  std::unique_ptr<Searcher> searcher_;
};

int run_replay(const SearchArguments& arguments, const Options& options) {
  const measure::SessionOptions session = arguments.session.session(arguments.problem);
  const ReplayRequest request{.file = arguments.replay,
                              .strategy = arguments.strategy,
                              .problem = arguments.problem.problem(),
                              .cache_mode = std::string(measure::name(session.cache)),
                              .stop = arguments.stop(options)};
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
  if (!arguments.replay.empty()) return run_replay(arguments, options);
  const search::PlanStrategyInfo* const plans = search::find_plan_strategy(arguments.strategy);
  const bool uses_model = plans != nullptr && plans->needs_model;
  if (!arguments.cost_model.empty() && !uses_model)
    throw base::UsageError("--cost-model: strategy " + arguments.strategy + " uses no model; `mask` does");
  std::optional<model::CostModel> initial_model;
  if (uses_model && !arguments.cost_model.empty()) initial_model = load_model(arguments.cost_model);

  const block::Problem problem = arguments.problem.problem();
  const measure::SessionOptions session_options = arguments.session.session(arguments.problem);
  catch_interrupts();
  measure::Session session(problem, session_options);
  stop_if_interrupted();
  Search search(arguments, options, session, session_options, std::move(initial_model));
  return search.run();
}

}  // namespace fusetune::cli
