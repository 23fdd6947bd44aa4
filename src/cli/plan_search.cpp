#include "cli/plan_search.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "cli/interrupt.h"
#include "cli/schedule_option.h"
#include "search/tile_tuning.h"

namespace fusetune::cli {
namespace {

using measure::Outcome;

bool can_run(const plan::FusionPlan& plan, const VariantSchedules& schedules) {
  const std::vector<plan::SegmentVariant> variants = plan.variants();
  return std::all_of(variants.begin(), variants.end(), [&](const plan::SegmentVariant& variant) {
    return schedules[static_cast<std::size_t>(plan::variant_index(variant))].has_value();
  });
}

std::string name_of(const store::PlanRecord& record) { return fmt::format("mask {}", record.mask); }

}  // namespace

VariantSchedules choose_schedules(const measure::Session& session, const store::TuningStore& store,
                                  const SearchSettings& settings, const search::Incumbents& tuned) {
  const search::Space space = search::segment_space(session.problem(), session.target());
  VariantSchedules schedules(plan::kVariantCount);
  for (int variant = 0; variant < plan::kVariantCount; ++variant) {
    std::optional<lower::AnySchedule>& chosen = schedules[static_cast<std::size_t>(variant)];
    const auto recorded =
        recorded_schedule(store, session.problem(), session.environment().fingerprint,
                          {settings.cache_mode, settings.data, settings.timing}, variant, session.target());
    if (recorded) {
      chosen = *recorded;
    } else if (const auto all = space.schedules(variant, search::tuned_tile(tuned, variant)); !all.empty()) {
      chosen = all.front();
    }
  }
  return schedules;
}

std::vector<plan::FusionPlan> runnable_plans(const VariantSchedules& schedules) {
  std::vector<plan::FusionPlan> plans;
  for (const plan::FusionPlan& plan : plan::all_plans())
    if (can_run(plan, schedules)) plans.push_back(plan);
  return plans;
}

PlanSearch::PlanSearch(measure::Session& session, store::TuningStore& store, std::int64_t run,
                       const SearchSettings& settings, VariantSchedules schedules,
                       std::unique_ptr<search::PlanStrategy> strategy)
    : session_(session),
      store_(store),
      run_(run),
      settings_(settings),
      schedules_(std::move(schedules)),
      strategy_(std::move(strategy)),
      stop_(settings_.stop),
      best_us_(std::numeric_limits<double>::infinity()) {}

std::optional<lower::AnySchedule> PlanSearch::schedule(int variant) const {
  return schedules_[static_cast<std::size_t>(variant)];
}

void PlanSearch::show(SearchProgress& progress, const std::string& doing) const {
  StageProgress stage = stage_progress(counts_, stop_, seconds());
  stage.unit = "plans";
  stage.expected = strategy_->expected();
  stage.doing = doing;
  progress.update(stage);
}

void PlanSearch::tell(const store::PlanRecord& record, const plan::FusionPlan& plan) {
  const measure::Measurement& measurement = record.measurement;
  const search::Trial trial = trial_of(measurement);
  ++counts_.outcomes[measurement.outcome];
  if (trial.ok) {
    timed_.push_back(
        {.plan = plan, .time_us = trial.time_us, .uniform = record.sampled == store::Sampled::uniform});
    best_us_ = std::min(best_us_, trial.time_us);
  } else {
    counts_.failures.push_back(
        {name_of(record), "", measurement.message, record.repeat_command, measurement.outcome});
  }
  strategy_->tell(plan, trial);
}

/// True when the store has the answer and the strategy was told.
bool PlanSearch::answer_from_store(Job& entry) {
  const PlanJob& job = entry.job;
  const std::optional<store::PlanRecord> known = store_.find_plan(job.record.key());
  entry.compared =
      known && known->sampled == store::Sampled::finalist && known->measurement.outcome == Outcome::ok;
  if (!known || entry.compared || (settings_.fresh && known->run != run_) ||
      store::may_retry(*known, settings_.limits))
    return false;
  // Claimed rather than taken: what is drawn uniformly is marked so.
  const store::PlanClaim claim = store_.claim_plan(job.record, store::ClaimPolicy::reuse);
  if (claim.state == store::ClaimState::granted) store_.release_plan(job.record.key());  // pruned meanwhile
  if (!claim.record) return false;
  ++counts_.reused;
  tell(*claim.record, job.plan);
  return true;
}

/// Plans that have to run.
std::vector<PlanSearch::Job> PlanSearch::prepare(const std::vector<search::PlanCandidate>& candidates) {
  std::vector<Job> jobs;
  const auto schedule_of = [this](int variant) { return schedule(variant); };
  for (const search::PlanCandidate& candidate : candidates) {
    Job job{make_plan_job(candidate.plan, schedule_of, session_, settings_)};
    job.job.record.run = run_;
    job.job.record.sampled = candidate.uniform ? store::Sampled::uniform : store::Sampled::guided;
    if (!answer_from_store(job)) jobs.push_back(std::move(job));
  }
  return jobs;
}

/// Leaves the jobs whose kernels compiled; the others are finished as failures.
void PlanSearch::compile(std::vector<Job>& jobs, SearchProgress& progress) {
  if (jobs.empty()) return;  // all answered by the store
  clock_.leave_out(settings_.begins_work());
  std::vector<PlanJob> plans;
  for (Job& job : jobs) plans.push_back(std::move(job.job));
  const auto results = compile_plans(session_, plans, [&](int done, int total) {
    show(progress, fmt::format("compiling {}/{}", done, total));
  });
  for (const backend::CompileResult& result : results)
    if (result.kernel.compile_seconds > 0)  // not from the cache
      counts_.compile_seconds.push_back(result.kernel.compile_seconds);
  std::vector<Job> compiled;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    Job job{std::move(plans[i]), jobs[i].tried, jobs[i].compared};
    if (job.job.record.measurement.outcome == Outcome::ok) {
      compiled.push_back(std::move(job));
    } else if (job.job.record.measurement.outcome == Outcome::skipped) {
      // No compiler here. Nothing to keep: another time there may be one.
      tell(job.job.record, job.job.plan);
      stop_.measured(best_us_);
    } else {
      measure::Measurement failed = job.job.record.measurement;
      finish(std::move(job), std::move(failed));
    }
  }
  jobs = std::move(compiled);
}

/// Stores a result and tells the strategy, except that a noisy plan first gets further chances.
void PlanSearch::finish(Job job, measure::Measurement measurement) {
  store::PlanRecord& record = job.job.record;
  record.measurement = std::move(measurement);
  if (record.measurement.outcome == Outcome::ok && !(record.measurement.reference_us > 0)) {
    // Timed by itself: no answer to who asks for times in units of the reference.
    store_.release_plan(record.key());
    record.settings = settings_.timing_alone;
  }
  const bool noisy = record.measurement.outcome == Outcome::noisy;
  if (noisy && job.compared) {
    store_.release_plan(record.key());  // what the comparison said is better than nothing
  } else {
    store_.record_plan(record);
  }
  ++counts_.measured;
  counts_.note_reference(record.measurement);
  if (noisy && !job.compared) {
    const std::optional<store::PlanRecord> stored = store_.find_plan(record.key());
    if (stored && store::may_retry(*stored)) {
      job.tried = true;
      stop_.measured(best_us_);
      noisy_.push_back(std::move(job));
      return;
    }
  }
  tell(record, job.job.plan);
  stop_.measured(best_us_);
}

/// Where another search has been measuring the candidate, its answer is as good as ours.
Turn PlanSearch::claim(Job& job, bool wait) {
  using store::ClaimPolicy;
  const ClaimPolicy policy = job.held                                          ? ClaimPolicy::reuse
                             : (settings_.fresh || job.compared) && !job.tried ? ClaimPolicy::fresh
                                                                               : ClaimPolicy::retry;
  const auto claim =
      wait ? claim_in_turn(store_, job.job.record, policy) : store_.claim_plan(job.job.record, policy);
  job.held = claim.state == store::ClaimState::held;
  if (job.held) return Turn::held;
  if (!claim.record) return Turn::granted;
  ++counts_.reused;  // measured meanwhile
  tell(*claim.record, job.job.plan);
  return Turn::answered;
}

void PlanSearch::measure(std::vector<Job> jobs, SearchProgress& progress) {
  const BatchSteps steps{
      .may_begin = [&](std::size_t measuring) { return stop_.may_begin(seconds(), measuring); },
      .claim = [&](std::size_t job, bool wait) { return claim(jobs[job], wait); },
      .kernels = [&](std::size_t job) -> measure::PlanKernels { return jobs[job].job.kernels; },
      .release = [&](std::size_t job) { store_.release_plan(jobs[job].job.record.key()); },
      .finish =
          [&](std::size_t job, measure::Measurement measurement) {
            finish(std::move(jobs[job]), std::move(measurement));
          },
      .progressed = [&] { show(progress, ""); },
  };
  // Jobs that already have a (noisy) result go back to those that wait for a better one.
  for (const std::size_t job : measure_jobs(measure_batch_of(session_), jobs.size(), true, steps))
    if (jobs[job].tried) noisy_.push_back(std::move(jobs[job]));
}

std::string PlanSearch::run(SearchProgress& progress) {
  clock_.restart();
  while (true) {
    stop_if_interrupted();
    if (std::string reason = stop_.reached(seconds()); !reason.empty()) {
      for (const Job& noisy : noisy_) tell(noisy.job.record, noisy.job.plan);
      return reason;
    }
    const auto limit =
        static_cast<int>(std::min<std::int64_t>(kSearchBatch, stop_.trials_left().value_or(kSearchBatch)));
    const std::vector<search::PlanCandidate> candidates = strategy_->ask(limit);
    if (candidates.empty() && noisy_.empty()) return {};
    std::vector<Job> jobs = candidates.empty() ? std::exchange(noisy_, {}) : prepare(candidates);
    if (!candidates.empty()) compile(jobs, progress);
    measure(std::move(jobs), progress);
    show(progress, "");
  }
}

std::string PlanSearch::summary() const {
  std::string text = fmt::format("{} plans timed whole", timed_.size());
  if (const std::int64_t predicted = strategy_->predicted(); predicted > 0)
    text += fmt::format(", {} predicted from them, {} of these pruned by the model", predicted,
                        strategy_->pruned());
  return text;
}

Untimed PlanSearch::untimed() const {
  const auto plans = static_cast<std::int64_t>(runnable_plans(schedules_).size());
  const std::int64_t pruned = strategy_->pruned();
  return {pruned, plans - counts_.candidates() - pruned};
}

std::optional<PlanCounts> PlanSearch::plan_counts() const {
  return PlanCounts{counts_.candidates(), static_cast<std::int64_t>(timed_.size()), strategy_->predicted()};
}

std::vector<search::Finalist> PlanSearch::finalists() const {
  if (timed_.empty()) return {};
  std::vector<search::TimedPlan> ranked = timed_;
  std::sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) {
    return std::pair(a.time_us, a.plan) < std::pair(b.time_us, b.plan);
  });
  const double slowest_us = ranked.back().time_us;
  const auto references = search::reference_plans();
  const std::size_t most =
      std::min({ranked.size(), static_cast<std::size_t>(settings_.finalists),
                static_cast<std::size_t>(search::kMaximumFinalists) - references.size()});
  std::vector<search::Finalist> finalists;
  std::set<plan::FusionPlan> there;
  const auto add = [&](const plan::FusionPlan& plan, double expected_us) {
    if (there.insert(plan).second) finalists.push_back({plan, 0, expected_us, search::Basis::whole});
  };
  for (std::size_t i = 0; i < most; ++i) add(ranked[i].plan, ranked[i].time_us);
  for (const search::ReferencePlan& reference : references)
    if (can_run(reference.plan, schedules_)) add(reference.plan, slowest_us);
  return finalists;
}

}  // namespace fusetune::cli
