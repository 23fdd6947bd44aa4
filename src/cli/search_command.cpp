// search: finds the best plan for a problem.
#include <fmt/core.h>

#include <array>
#include <filesystem>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/problem_options.h"
#include "cli/search_driver.h"
#include "cli/search_report.h"
#include "cli/session_options.h"

namespace fusetune::cli {
namespace {

struct SearchArguments {
  std::string strategy = "exhaustive";
  std::int64_t trials = 0, early_stop = 0;
  double time_limit = 0;
  std::string database = "fusetune.db";
  bool resume = false, fresh = false, verbose = false;
  int finalists = 8, pairs = 0;
  std::string json;
  SessionArguments session;
  ProblemOptions problem;

  void declare(Options& options) {
    options.text("--strategy", strategy, "NAME", "how candidates are chosen: exhaustive");
    options.integer("--trials", trials, "N", "stop after N measured candidates; default: no limit", 1);
    options.seconds("--time-limit", time_limit,
                    "stop compiling and measuring segments after so long (20, 20s, 5m); the best plans so "
                    "far are then timed; default: no limit");
    options.integer("--early-stop", early_stop, "N",
                    "stop after N candidates without a better plan; default: no limit", 1);
    options.integer("--finalists", finalists, "N", "cheapest plans by sum that are timed whole", 1, 13);
    options.integer("--pairs", pairs, "N",
                    "alternating pairs per finalist; default: 160, down to 40 where a plan takes long", 20,
                    100000);
    options.text("--db", database, "FILE", "where measurements are kept");
    options.flag("--resume", resume, "go on from what the database has (the default)");
    options.flag("--fresh", fresh, "measure everything again");
    options.flag("--verbose", verbose, "also the best plan's schedules and every failed candidate");
    options.output("--json", json, "the result as JSON");
    for (const char* later : {"--cost-model", "--replay", "--dry-run", "--epsilon", "--device"})
      options.later(later);
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

/// Distinguishes generated data from the user's files; a file that changed is other data.
std::string data_identity(const measure::SessionOptions& session) {
  if (session.weights.empty() && session.input.empty()) return "generated";
  base::Hasher hasher;
  for (const std::filesystem::path& file : {session.weights, session.input}) {
    hasher.add(file.empty() ? std::string() : base::read_file(file));
  }
  hasher.add(static_cast<std::uint64_t>(session.layer));
  return "files-" + hasher.hex();
}

/// A search from its open database to its last word.
class Search {
 public:
  Search(const SearchArguments& arguments, const Options& options, measure::Session& session,
         const measure::SessionOptions& session_options)
      : arguments_(arguments),
        quiet_(options.given("--quiet")),
        store_(arguments.database),
        strategy_(search::make_strategy(arguments.strategy,
                                        search::segment_space(session.problem(), session.target()),
                                        session.problem().seed)) {
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
    if (const int dead = store_.recover_abandoned(); dead > 0) {
      base::note(fmt::format(
          "note: {} candidate{} of a search that was killed count{} as crashed, and will be tried once more",
          dead, dead == 1 ? "" : "s", dead == 1 ? "s" : ""));
    }
    report_.run = store_.begin_run(
        report_.problem_key, {report_.fingerprint, session.environment().fields},
        fmt::format("{{\"strategy\": \"{}\", \"pairs\": {}, \"finalists\": {}, \"fresh\": {}}}",
                    arguments.strategy, arguments.pairs, arguments.finalists, arguments.fresh));
    SearchSettings settings{
        .stop = arguments.stop(options),
        .fresh = arguments.fresh,
        .finalists = arguments.finalists,
        .pairs = arguments.pairs,
        .cache_mode = std::string(measure::name(session_options.cache)),
        .timing = store::settings_text(session_options.samples, session_options.min_sample_seconds),
        .limits = {session_options.compile_timeout, session_options.run_timeout},
        .data = data_identity(session_options),
        .repeat_options = problem_and_device};
    driver_ = std::make_unique<SearchDriver>(session, store_, report_.run, std::move(settings));
  }

  int run() {
    try {
      SearchProgress progress(quiet_);
      report_.stopped = driver_->measure_segments(*strategy_, progress);
      progress.clear();
      report_.seconds = driver_->seconds();
      const std::vector<search::Finalist> finalists = driver_->finalists();
      if (finalists.empty())
        return nothing(report_.stopped.empty()
                           ? "no complete plan has a valid kernel for each of its segments"
                           : "it stopped before some plan had a valid kernel for each of its segments");
      progress.say(fmt::format("timing {} plan{} whole", finalists.size(), finalists.size() == 1 ? "" : "s"));
      const std::optional<FinalResult> result = driver_->time_finalists(finalists);
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
  int found(const FinalResult& result) {
    const std::string json = result_json(report_, *driver_, &result, "finished");
    store_.finish_run(report_.run, store::RunState::finished, json, result.hash);
    say(describe_result(report_, *driver_, result), json);
    return kDone;
  }

  int nothing(const std::string& why) {
    const std::string json = result_json(report_, *driver_, nullptr, "nothing");
    store_.finish_run(report_.run, store::RunState::failed, json, "");
    say(describe_nothing(report_, *driver_, why), json);
    return kBadAnswer;
  }

  void end_interrupted() {
    if (report_.seconds == 0) report_.seconds = driver_->seconds();
    const std::string json = result_json(report_, *driver_, nullptr, "interrupted");
    store_.finish_run(report_.run, store::RunState::interrupted, json, "");
    say(describe_interrupted(report_, *driver_), json);
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
  store::TuningStore store_;
  std::unique_ptr<search::Strategy> strategy_;
  SearchReport report_;
  std::unique_ptr<SearchDriver> driver_;
};

}  // namespace

int run_search(Options& options) {
  SearchArguments arguments;
  arguments.declare(options);
  options.parse();
  if (arguments.resume && arguments.fresh) throw base::UsageError("--resume and --fresh exclude each other");
  arguments.stop(options);
  search::make_strategy(arguments.strategy,
                        {[](int, const search::GemmTile&) { return std::vector<lower::Schedule>{}; }},
                        0);  // an unknown strategy is refused before any work

  const block::Problem problem = arguments.problem.problem();
  const measure::SessionOptions session_options = arguments.session.session(arguments.problem);
  catch_interrupts();
  measure::Session session(problem, session_options);
  stop_if_interrupted();
  Search search(arguments, options, session, session_options);
  return search.run();
}

}  // namespace fusetune::cli
