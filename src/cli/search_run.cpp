#include "cli/search_run.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/file.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/counted_clock.h"
#include "cli/final_comparison.h"
#include "cli/guided_search.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/plan_search.h"
#include "cli/problem_options.h"
#include "cli/reference_plan.h"
#include "cli/search_budget.h"
#include "cli/search_report.h"
#include "cli/segment_search.h"
#include "cli/session_options.h"
#include "search/plan_model.h"
#include "search/tile_tuning.h"

namespace fusetune::cli {
namespace {

/// What a run's row says of how it was made: program, command, and what decides what was measured how. JSON.
std::string provenance(const SearchRequest& request, const measure::SessionOptions& session,
                       const SearchSettings& settings) {
  const auto given = [](const auto& limit) { return limit ? nlohmann::json(*limit) : nlohmann::json(); };
  const nlohmann::ordered_json json = {{"fusetune", FUSETUNE_VERSION},
                                       {"command", request.command},
                                       {"strategy", request.strategy},
                                       {"pairs", request.pairs},
                                       {"finalists", request.finalists},
                                       {"fresh", request.fresh},
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
class SearchRun {
 public:
  SearchRun(SearchRequest request, measure::Session& session, const measure::SessionOptions& session_options)
      : request_(std::move(request)),
        session_(session),
        session_options_(session_options),
        store_(request_.database),
        reference_(session) {
    begin_report();
    note_abandoned();
    settings_ = search_settings(request_, session_options, reference_.hash());
    settings_.begins_work = [this] { return predict(); };
    report_.run = store_.begin_run(report_.problem_key, {report_.fingerprint, session.environment().fields},
                                   provenance(request_, session_options, settings_));
    session.time_beside([this] { return timing_reference(); });
  }

  int run() {
    try {
      SearchProgress progress(request_.quiet);
      if (const auto* plans = search::find_plan_strategy(request_.strategy)) {
        search_plans(*plans, progress);
      } else {
        run(segment_searcher(), progress);
      }
      const std::vector<search::Finalist> finalists = searcher_->finalists();
      note_time();
      if (finalists.empty())
        return nothing(report_.stopped.empty()
                           ? "no complete plan has a valid kernel for each of its segments"
                           : "it stopped before some plan had a valid kernel for each of its segments");
      progress.say(fmt::format("timing {} plan{} whole", finalists.size(), finalists.size() == 1 ? "" : "s"));
      const double before_finals_s = clock_.seconds();
      const std::optional<FinalResult> result =
          FinalComparison(session_, store_, report_.run, settings_, progress)
              .time(finalists, [this](int variant) { return searcher_->schedule(variant); });
      progress.clear();
      report_.took.total_s = clock_.seconds();
      if (result && !result->reused) report_.took.finals_s = report_.took.total_s - before_finals_s;
      if (!report_.predicted) note_answered();
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
  void begin_report() {
    report_.problem_line = describe(session_.problem());
    report_.environment_line = describe(session_.environment());
    const lower::Target target = session_.target();
    if (const auto* gpu = std::get_if<lower::GpuTarget>(&target)) report_.library = gpu->library;
    report_.problem_key = session_.problem().key();
    report_.fingerprint = session_.environment().fingerprint;
    report_.options = request_.problem_and_device + request_.database_option;
    report_.search_options =
        request_.problem_and_devices + request_.database_option + request_.search_options;
    report_.generate_options = request_.generate_options;
    report_.database = request_.database;
    report_.verbose = request_.verbose;
    report_.epsilon = request_.epsilon;
  }

  void note_abandoned() {
    const int dead = store_.recover_abandoned();
    if (dead == 0) return;
    base::note(fmt::format(
        "note: {} candidate{} of a search that was killed count{} as crashed, and will be tried once more",
        dead, dead == 1 ? "" : "s", dead == 1 ? "s" : ""));
  }

  /// What is left to do, before the first of it: nothing that can be waited for is asked of a search that the
  /// database answers. Seconds of this, and of the session's preparations.
  double predict() {
    if (report_.predicted) return 0;
    const CountedClock preparing;
    report_.predicted = predict_budget(request_.strategy, session_, session_options_, store_, settings_);
    session_.prepare();
    const double seconds = preparing.seconds();
    clock_.leave_out(seconds);
    return seconds;
  }

  /// The plan that candidates are timed beside, and what it takes by agreement with earlier searches.
  measure::TimingReference timing_reference() {
    const auto known = store_.reference_time(report_.problem_key, report_.fingerprint, settings_.cache_mode,
                                             settings_.timing);
    return {reference_.compile(), known.value_or(0), [this](double us) {
              return store_.agree_on_reference_time(report_.problem_key, report_.fingerprint,
                                                    settings_.cache_mode, settings_.timing, us);
            }};
  }

  /// Up to here, the finals not begun.
  void note_time() {
    const measure::Spent& spent = session_.spent();
    report_.took = {.total_s = clock_.seconds(),
                    .compile_s = spent.compile_s,
                    .compiled = spent.compiled,
                    .measure_s = spent.measure_s,
                    .measured = spent.measured,
                    .devices = static_cast<int>(session_.devices().size())};
  }

  void note_answered() {
    const std::int64_t all = all_counts(report_, *searcher_).candidates();
    const std::optional<PlanCounts> counts = searcher_->plan_counts();
    const std::int64_t plans = counts ? counts->tried : 0;
    report_.predicted = answered_budget(all - plans, plans);
  }

  std::uint64_t seed() const { return session_.problem().seed; }

  std::unique_ptr<Searcher> segment_searcher() {
    const search::StrategyInfo& info = *search::find_strategy(request_.strategy);
    SegmentStrategy made = make_segment_strategy(info, session_, settings_);
    segment_model_ = std::move(made.model);
    if (info.refines_plans)
      return std::make_unique<GuidedSearch>(session_, store_, report_.run, settings_,
                                            std::move(made.strategy));
    return std::make_unique<SegmentSearch>(session_, store_, report_.run, settings_,
                                           std::move(made.strategy));
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
    tuning_settings_.stop.trials.reset();
    tuning_settings_.stop.early_stop.reset();
    auto tuning = std::make_unique<SegmentSearch>(session_, store_, report_.run, tuning_settings_,
                                                  std::make_unique<search::TileTuning>(space, seed()));
    const SegmentSearch& tuned = *tuning;
    run(std::move(tuning), progress);
    if (!report_.stopped.empty()) return;
    VariantSchedules schedules = choose_schedules(session_, store_, settings_, tuned.best());
    plans_ = runnable_plans(schedules);
    settings_.stop.spent_s = report_.seconds;
    const std::int64_t trials = settings_.stop.trials.value_or(0);
    const search::PlanSpace plan_space{plans_, trials > 0 ? trials + known_plans() : 0,
                                       strategy.needs_model ? &plan_model() : nullptr};
    auto plans = std::make_unique<PlanSearch>(session_, store_, report_.run, settings_, std::move(schedules),
                                              strategy.make(plan_space, seed()));
    report_.tuned = tuned.counts();
    run(std::move(plans), progress);
  }

  /// Plans that earlier searches timed under these settings: they will be asked for again, and cost no trial.
  std::int64_t known_plans() const {
    const auto records = store_.plan_records(report_.problem_key, report_.fingerprint, settings_.cache_mode);
    return std::count_if(records.begin(), records.end(), [&](const store::PlanRecord& record) {
      return record.settings == settings_.timing && record.sampled != store::Sampled::finalist;
    });
  }

  search::PlanModel& plan_model() {
    model::TrainOptions options;
    options.seed = seed();
    model_ = std::make_unique<search::FittedPlanModel>(session_.problem(), options,
                                                       std::move(request_.initial_model));
    return *model_;
  }

  /// How good the model is that was fitted, if one was.
  void score_model() {
    model::Evaluation evaluation;
    if (segment_model_ && segment_model_->ready()) {
      evaluation = segment_model_->evaluate();
      report_.threshold = segment_model_->threshold();
      report_.model_of = "kernels";
    } else if (model_) {
      evaluation = model_->evaluate();
      report_.model_of = "plans";
    }
    if (!evaluation.groups.empty()) report_.model = evaluation.groups.front();
  }

  int found(const FinalResult& result) {
    score_model();
    report_.devices = session_.devices();
    const std::string json = result_json(report_, *searcher_, &result, "finished");
    store_.finish_run(report_.run, store::RunState::finished, json, result.hash);
    say(describe_result(report_, *searcher_, result), json);
    return kDone;
  }

  int nothing(const std::string& why) {
    report_.devices = session_.devices();
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
    report_.seconds = settings_.stop.spent_s + searcher_->seconds();
    if (report_.took.total_s == 0) note_time();
    report_.devices = session_.devices();
    const std::string json = result_json(report_, *searcher_, nullptr, "interrupted");
    store_.finish_run(report_.run, store::RunState::interrupted, json, "");
    say(describe_interrupted(report_, *searcher_), json);
    flush_output();
  }

  void say(const std::string& text, const std::string& json) const {
    if (request_.json == "-") {
      print(json);
      return;
    }
    print(text);
    flush_output();  // whatever happens to the file
    if (!request_.json.empty()) base::write_file_atomic(request_.json, json);
  }

  SearchRequest request_;
  CountedClock clock_;
  measure::Session& session_;
  const measure::SessionOptions& session_options_;
  store::TuningStore store_;
  AllFusedReference reference_;
  SearchReport report_;
  SearchSettings settings_, tuning_settings_;
  std::vector<plan::FusionPlan> plans_;
  std::unique_ptr<search::FittedPlanModel> model_;
  std::unique_ptr<search::FittedSegmentModel> segment_model_;
  std::unique_ptr<Searcher> searcher_;
};

}  // namespace

SearchSettings search_settings(const SearchRequest& request, const measure::SessionOptions& session_options,
                               const std::string& reference) {
  const int samples = session_options.samples;
  const double min_sample_s = session_options.min_sample_seconds;
  return {.stop = request.stop,
          .fresh = request.fresh,
          .finalists = request.finalists,
          .pairs = request.pairs,
          // Who gives a search less time than that wants an answer as soon.
          .comparison_s = std::min(SearchSettings().comparison_s, request.stop.seconds.value_or(1e9)),
          .cache_mode = std::string(measure::name(session_options.cache)),
          .timing = store::settings_text(samples, min_sample_s, reference),
          .timing_alone = store::settings_text(samples, min_sample_s),
          .epsilon = request.epsilon,
          .priors = request.priors,
          .limits = {session_options.compile_timeout, session_options.run_timeout},
          .data = data_identity(session_options),
          .repeat_options = request.problem_and_device};
}

int find_best_plan(SearchRequest request, measure::Session& session,
                   const measure::SessionOptions& session_options) {
  return SearchRun(std::move(request), session, session_options).run();
}

}  // namespace fusetune::cli
