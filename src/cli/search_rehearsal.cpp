#include "cli/search_rehearsal.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "base/error.h"
#include "cli/final_comparison.h"
#include "cli/plan_job.h"
#include "cli/plan_search.h"
#include "cli/segment_search.h"
#include "lower/program.h"
#include "measure/statistics.h"
#include "model/features.h"
#include "search/plan_refinement.h"
#include "search/plan_strategy.h"
#include "search/random_source.h"
#include "search/strategy.h"
#include "search/tile_tuning.h"

namespace fusetune::cli {
namespace {

using measure::Outcome;

/// Kernels that nobody timed differ by so much from what stands in for their times, as a logarithm. With it
/// rehearsals of the 24 problems of data/recorded/sapphire-rapids asked for 222 kernels in the mean where
/// their replays did for 234; for 169 without.
constexpr double kStandInDeviation = 0.04;

/// What a variant does, in FLOPs.
double work_of(int variant, const block::Problem& problem) {
  const plan::SegmentVariant& each = plan::all_variants()[static_cast<std::size_t>(variant)];
  const lower::StaticCosts costs = lower::static_costs(each.segment, problem);
  return model::work_of(costs.flops, costs.bytes_read + costs.bytes_written);
}

/// Expected times of variants, from what is recorded of this problem on this device.
class ExpectedTimes {
 public:
  ExpectedTimes(const measure::Session& session, const store::TuningStore& store,
                const SearchSettings& settings)
      : problem_(session.problem()) {
    std::vector<double> us_per_work;
    for (const store::TuningRecord& record :
         store.records(problem_.key(), session.environment().fingerprint, settings.cache_mode)) {
      if (record.measurement.outcome != Outcome::ok) continue;
      const double us = record.measurement.time.median_us;
      double& best = best_us_[static_cast<std::size_t>(record.key.variant)];
      best = best > 0 ? std::min(best, us) : us;
      us_per_work.push_back(us / work_of(record.key.variant, problem_));
    }
    if (!us_per_work.empty()) us_per_work_ = measure::median(us_per_work);
  }

  /// Microseconds; 0: nothing of the problem is recorded.
  double us(int variant) const {
    const double best = best_us_[static_cast<std::size_t>(variant)];
    return best > 0 ? best : us_per_work_ * work_of(variant, problem_);
  }
  double us(const plan::FusionPlan& plan) const {
    double sum = 0;
    for (const plan::SegmentVariant& variant : plan.variants()) sum += us(plan::variant_index(variant));
    return sum;
  }
  /// The same above 0; where nothing is recorded, in a unit of its own. `by_prior_us`: NaN: not known.
  double stand_in(int variant, double by_prior_us) const {
    if (us_per_work_ > 0) return us(variant);
    return std::isfinite(by_prior_us) ? by_prior_us : work_of(variant, problem_);
  }

 private:
  const block::Problem& problem_;
  std::array<double, plan::kVariantCount> best_us_{};  // 0: none
  double us_per_work_ = 0;
};

class Rehearser {
 public:
  Rehearser(measure::Session& session, store::TuningStore& store, const SearchSettings& settings)
      : session_(session), store_(store), settings_(settings), times_(session, store, settings) {
    result_.at_most = settings.stop.early_stop.has_value();
  }

  Rehearsal segments_then_plans(const search::StrategyInfo& info) {
    const SegmentStrategy segments = make_segment_strategy(std::string(info.name), session_, settings_);
    rehearse_segments(*segments.strategy);
    std::vector<search::Finalist> finalists = search::select_finalists(best_.costs(), settings_.finalists);
    if (info.refines_plans) {
      search::PlanRefinement plans(best_.costs(), settings_.finalists, session_.problem().seed,
                                   search::PlanClosing(edges_, settings_.epsilon));
      if (plans.expected() > 0) rehearse_plans(plans);
      result_.about = result_.to_measure() > 0;
      // As if stand-ins had nothing to learn from, which ends it early.
      if (result_.about) expect_more_plans(*plans.expected() - result_.plans);
      finalists = plans.finalists();
    }
    if (result_.to_measure() == 0 && !finalists.empty()) {
      SearchProgress quiet(true);
      result_.finals_known =
          FinalComparison(session_, store_, 0, settings_, quiet).is_known(finalists, [this](int variant) {
            return schedule(variant);
          });
    }
    return std::move(result_);
  }

  /// Which plans are timed depends on what each takes, but not how many there are at most.
  Rehearsal plans() {
    const std::optional<std::int64_t> trials = std::exchange(settings_.stop.trials, std::nullopt);
    search::TileTuning tuning(space(), session_.problem().seed);
    rehearse_segments(tuning);
    const VariantSchedules schedules = choose_schedules(session_, store_, settings_, best_);
    const std::vector<plan::FusionPlan> runnable = runnable_plans(schedules);
    const auto all = static_cast<std::int64_t>(runnable.size());
    const std::int64_t known = std::min(known_plans(), all);
    const std::int64_t left = std::min(all - known, trials.value_or(all));
    result_.plans = known + left;
    result_.known += known;
    result_.at_most = true;
    if (left > 0) expect_average_plans(left, runnable, schedules);
    return std::move(result_);
  }

 private:
  search::Space space() const { return search::segment_space(session_.problem(), session_.target()); }

  std::optional<lower::AnySchedule> schedule(int variant) const {
    const auto& best = best_[variant];
    return best ? std::optional(best->schedule) : std::nullopt;
  }

  std::int64_t batch() const {
    return std::min<std::int64_t>(
        kSearchBatch,
        settings_.stop.trials.value_or(result_.to_measure() + kSearchBatch) - result_.to_measure());
  }

  void rehearse_segments(search::Strategy& strategy) {
    for (std::int64_t limit = batch(); limit > 0; limit = batch()) {
      const std::vector<search::Candidate> candidates = strategy.ask(static_cast<int>(limit));
      if (candidates.empty()) return;
      const std::vector<double> expected_us = by_prior_us(candidates);
      for (std::size_t i = 0; i < candidates.size(); ++i) {
        const search::Trial trial = try_segment(candidates[i], expected_us[i]);
        if (trial.ok)
          edges_.push_back({candidates[i].variant, trial.time_us, trial.mad_us, std::max(1, trial.samples)});
        best_.tell(candidates[i], trial);
        strategy.tell(candidates[i], trial);
      }
    }
  }

  /// In the prior's own unit; NaN: there is none, or it does not know.
  std::vector<double> by_prior_us(const std::vector<search::Candidate>& candidates) const {
    if (settings_.priors.empty())
      return std::vector<double>(candidates.size(), std::numeric_limits<double>::quiet_NaN());
    return settings_.priors.back()->predict_us(candidates);
  }

  search::Trial try_segment(const search::Candidate& candidate, double by_prior_us) {
    ++result_.kernels;
    try {
      codegen::AnyKernel source =
          codegen::generate(plan::all_variants()[static_cast<std::size_t>(candidate.variant)],
                            candidate.schedule, session_.problem(), session_.target());
      if (!settings_.fresh) {
        const auto known = store_.find(segment_key(candidate.variant, source, session_, settings_));
        if (known && !store::may_retry(*known, settings_.limits)) {
          ++result_.known;
          return trial_of(known->measurement);
        }
      }
      result_.sources.push_back(std::move(source));
    } catch (const base::UsageError&) {  // refused: answered without a device
      ++result_.known;
      return {};
    }
    result_.expected_us.push_back(times_.us(candidate.variant));
    return {true,
            times_.stand_in(candidate.variant, by_prior_us) * std::exp(kStandInDeviation * random_.normal())};
  }

  void rehearse_plans(search::PlanStrategy& strategy) {
    for (std::int64_t limit = batch(); limit > 0; limit = batch()) {
      const std::vector<search::PlanCandidate> candidates = strategy.ask(static_cast<int>(limit));
      if (candidates.empty()) return;
      for (const search::PlanCandidate& candidate : candidates)
        strategy.tell(candidate.plan, try_plan(candidate.plan));
    }
  }

  search::Trial try_plan(const plan::FusionPlan& plan) {
    ++result_.plans;
    PlanJob job = make_plan_job(
        plan, [this](int variant) { return schedule(variant); }, session_, settings_);
    if (!settings_.fresh) {
      const auto known = store_.find_plan(job.record.key());
      const bool compared =
          known && known->sampled == store::Sampled::finalist && known->measurement.outcome == Outcome::ok;
      if (known && !compared && !store::may_retry(*known, settings_.limits)) {
        ++result_.known;
        return trial_of(known->measurement);
      }
    }
    std::move(job.sources.begin(), job.sources.end(), std::back_inserter(result_.sources));
    result_.expected_us.push_back(times_.us(plan));
    double sum = 0;
    for (const plan::SegmentVariant& variant : plan.variants()) {
      const auto& best = best_[plan::variant_index(variant)];
      sum += best ? best->time_us : 0;
    }
    return {true, sum};
  }

  /// Such as those that were rehearsed.
  void expect_more_plans(std::int64_t count) {
    if (count <= 0 || result_.plans == 0) return;
    result_.plans += count;
    result_.expected_us.insert(result_.expected_us.end(), static_cast<std::size_t>(count),
                               result_.expected_us.back());
  }

  /// Plans that earlier searches timed under these settings.
  std::int64_t known_plans() const {
    if (settings_.fresh) return 0;
    const auto records = store_.plan_records(session_.problem().key(), session_.environment().fingerprint,
                                             settings_.cache_mode);
    return std::count_if(records.begin(), records.end(), [&](const store::PlanRecord& record) {
      return record.settings == settings_.timing && record.sampled != store::Sampled::finalist;
    });
  }

  void expect_average_plans(std::int64_t count, const std::vector<plan::FusionPlan>& plans,
                            const VariantSchedules& schedules) {
    double sum = 0;
    for (const plan::FusionPlan& plan : plans) sum += times_.us(plan);
    result_.expected_us.insert(result_.expected_us.end(), static_cast<std::size_t>(count),
                               sum / static_cast<double>(plans.size()));
    for (std::size_t variant = 0; variant < schedules.size(); ++variant)
      if (schedules[variant])
        result_.sources.push_back(codegen::generate(plan::all_variants()[variant], *schedules[variant],
                                                    session_.problem(), session_.target()));
  }

  measure::Session& session_;
  store::TuningStore& store_;
  SearchSettings settings_;
  ExpectedTimes times_;
  search::Incumbents best_;
  std::vector<search::TimedEdge> edges_;
  search::RandomSource random_{session_.problem().seed};
  Rehearsal result_;
};

}  // namespace

Rehearsal rehearse(const std::string& strategy, measure::Session& session, store::TuningStore& store,
                   const SearchSettings& settings) {
  Rehearser rehearser(session, store, settings);
  const search::StrategyInfo* const over_segments = search::find_strategy(strategy);
  return over_segments != nullptr ? rehearser.segments_then_plans(*over_segments) : rehearser.plans();
}

}  // namespace fusetune::cli
