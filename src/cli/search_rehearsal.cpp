#include "cli/search_rehearsal.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "base/error.h"
#include "cli/final_comparison.h"
#include "cli/interrupt.h"
#include "cli/plan_job.h"
#include "cli/plan_search.h"
#include "cli/segment_search.h"
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

/// Kernels that nobody timed differ by so much from what stands in for their times, as a logarithm. Without,
/// rehearsals asked for far fewer kernels than replays (docs/method.md).
constexpr double kStandInDeviation = 0.04;

/// What a variant does, in FLOPs.
double work_of(int variant, const search::Space& space) {
  const search::Work needed = space.work(variant);
  return model::work_of(needed.flops, needed.bytes);
}

/// Expected times of variants, from what is recorded of this problem on this device.
class RecordedTimes {
 public:
  RecordedTimes(const measure::Session& session, const store::TuningStore& store,
                const SearchSettings& settings, const search::Space& space)
      : space_(space) {
    std::vector<double> us_per_work;
    for (const store::TuningRecord& record :
         store.records(session.problem().key(), session.environment().fingerprint, settings.cache_mode)) {
      if (record.measurement.outcome != Outcome::ok) continue;
      const double us = record.measurement.time.median_us;
      double& best = best_us_[static_cast<std::size_t>(record.key.variant)];
      best = best > 0 ? std::min(best, us) : us;
      us_per_work.push_back(us / work_of(record.key.variant, space_));
    }
    if (!us_per_work.empty()) us_per_work_ = measure::median(us_per_work);
  }

  /// Microseconds; 0: nothing of the problem is recorded.
  double us(int variant) const {
    const double best = best_us_[static_cast<std::size_t>(variant)];
    return best > 0 ? best : us_per_work_ * work_of(variant, space_);
  }
  double us(const plan::FusionPlan& plan) const {
    double sum = 0;
    for (const plan::SegmentVariant& variant : plan.variants()) sum += us(plan::variant_index(variant));
    return sum;
  }
  bool any() const { return us_per_work_ > 0; }

 private:
  const search::Space& space_;
  std::array<double, plan::kVariantCount> best_us_{};  // 0: none
  double us_per_work_ = 0;
};

/// What candidates are told to take that nothing recorded answers, in one unit: where there are times of the
/// problem, what these make expect of the variant; else what the first prior expects that knows the kernel. A
/// kernel that no prior knows takes what its FLOPs and bytes do by the kernels before it.
class StandIns {
 public:
  StandIns(const RecordedTimes& recorded, const search::Priors& priors, const search::Space& space,
           std::uint64_t seed)
      : recorded_(recorded), priors_(priors), space_(space), random_(~seed) {}

  double us(const search::Candidate& candidate) {
    return expected_us(candidate) * std::exp(kStandInDeviation * random_.normal());
  }

 private:
  double expected_us(const search::Candidate& candidate) {
    if (recorded_.any()) return recorded_.us(candidate.variant);
    const double work = work_of(candidate.variant, space_);
    for (const auto& prior : priors_) {
      const double us = prior->predict_us(std::span(&candidate, 1)).front();
      if (!std::isfinite(us)) continue;
      us_per_work_.push_back(us / work);
      return us;
    }
    return work * (us_per_work_.empty() ? 1 : measure::median(us_per_work_));
  }

  const RecordedTimes& recorded_;
  const search::Priors& priors_;
  const search::Space& space_;
  std::vector<double> us_per_work_;  // of the kernels that a prior knew
  search::RandomSource random_;      // not the strategies' own draws
};

class Rehearser {
 public:
  Rehearser(measure::Session& session, store::TuningStore& store, const SearchSettings& settings)
      : session_(session),
        store_(store),
        settings_(settings),
        space_(search::segment_space(session.problem(), session.target())),
        times_(session, store, settings, space_),
        stand_ins_(times_, settings_.priors, space_, session.problem().seed) {}

  Rehearsal segments_then_plans(const search::StrategyInfo& info) {
    const SegmentStrategy segments = make_segment_strategy(info, session_, settings_);
    rehearse_segments(*segments.strategy);
    std::vector<search::Finalist> finalists = search::select_finalists(best_.costs(), settings_.finalists);
    if (info.refines_plans) {
      search::PlanRefinement plans(best_.costs(), settings_.finalists, session_.problem().seed,
                                   search::PlanClosing(edges_, settings_.epsilon));
      const std::int64_t most = plans.expected().value_or(0);
      if (most > 0) rehearse_plans(plans);
      expect_more_plans(most - result_.plans);
      finalists = plans.finalists();
    }
    if (result_.to_measure() > 0)
      result_.counts = settings_.stop.early_stop && !info.refines_plans ? Counts::at_most : Counts::about;
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
    search::TileTuning tuning(space_, session_.problem().seed);
    rehearse_segments(tuning);
    const VariantSchedules schedules = choose_schedules(session_, store_, settings_, best_);
    const std::vector<plan::FusionPlan> runnable = runnable_plans(schedules);
    const auto all = static_cast<std::int64_t>(runnable.size());
    const std::int64_t known = std::min(known_plans(), all);
    const std::int64_t left = std::min(all - known, trials.value_or(all));
    result_.plans = known + left;
    result_.known += known;
    result_.counts = Counts::at_most;
    if (left > 0) expect_average_plans(left, runnable, schedules);
    return std::move(result_);
  }

 private:
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
      for (const search::Candidate& candidate : candidates) {
        stop_if_interrupted();
        const search::Trial trial = try_segment(candidate);
        if (trial.ok) edges_.push_back(search::edge_of(candidate.variant, trial));
        best_.tell(candidate, trial);
        strategy.tell(candidate, trial);
      }
    }
  }

  search::Trial try_segment(const search::Candidate& candidate) {
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
    return {true, stand_ins_.us(candidate)};
  }

  void rehearse_plans(search::PlanStrategy& strategy) {
    for (std::int64_t limit = batch(); limit > 0; limit = batch()) {
      const std::vector<search::PlanCandidate> candidates = strategy.ask(static_cast<int>(limit));
      if (candidates.empty()) return;
      for (const search::PlanCandidate& candidate : candidates) {
        stop_if_interrupted();
        strategy.tell(candidate.plan, try_plan(candidate.plan));
      }
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
    unknown_plan_us_ = times_.us(plan);
    result_.expected_us.push_back(*unknown_plan_us_);
    double sum = 0;
    for (const plan::SegmentVariant& variant : plan.variants()) {
      const auto& best = best_[plan::variant_index(variant)];
      sum += best ? best->time_us : 0;
    }
    return {true, sum};
  }

  /// Plans without a time take exactly their sums here, so that the certificate closes after the first batch,
  /// which with real times it would not.
  void expect_more_plans(std::int64_t count) {
    if (settings_.stop.trials) count = std::min(count, *settings_.stop.trials - result_.to_measure());
    if (count <= 0 || !unknown_plan_us_) return;
    result_.plans += count;
    result_.expected_us.insert(result_.expected_us.end(), static_cast<std::size_t>(count), *unknown_plan_us_);
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
  search::Space space_;
  RecordedTimes times_;
  StandIns stand_ins_;
  search::Incumbents best_;
  std::vector<search::TimedEdge> edges_;
  std::optional<double> unknown_plan_us_;  // of the last plan that was to be measured; as expected_us
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
