#include "cli/segment_search.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "cli/interrupt.h"
#include "cli/plan_job.h"
#include "cli/recorded_segments.h"

namespace fusetune::cli {
namespace {

using backend::CompileResult;
using measure::Outcome;

const plan::SegmentVariant& variant_at(int index) {
  return plan::all_variants()[static_cast<std::size_t>(index)];
}

}  // namespace

SegmentStrategy make_segment_strategy(const search::StrategyInfo& info, const measure::Session& session,
                                      const SearchSettings& settings) {
  const block::Problem& problem = session.problem();
  const lower::Target target = session.target();
  const model::Device device(target, device_of(session.environment().fields).last_level_bytes);
  SegmentStrategy made;
  made.model = std::make_unique<search::FittedSegmentModel>(problem, device, problem.seed);
  made.strategy = info.make(search::segment_space(problem, target), made.model.get(), problem.seed,
                            {.alpha = 1, .epsilon = settings.epsilon}, settings.priors);
  return made;
}

SegmentSearch::SegmentSearch(measure::Session& session, store::TuningStore& store, std::int64_t run,
                             const SearchSettings& settings, std::unique_ptr<search::Strategy> strategy)
    : session_(session),
      store_(store),
      run_(run),
      settings_(settings),
      strategy_(std::move(strategy)),
      target_(session.target()),
      stop_(settings_.stop),
      best_sum_us_(std::numeric_limits<double>::infinity()) {}

codegen::AnyKernel SegmentSearch::generate(int variant, const lower::AnySchedule& schedule) const {
  return codegen::generate(variant_at(variant), schedule, session_.problem(), target_);
}

store::TuningRecord SegmentSearch::record_of(const search::Candidate& candidate,
                                             const codegen::AnyKernel& source) const {
  store::TuningRecord record;
  record.key = segment_key(candidate.variant, source, session_, settings_);
  record.limits = settings_.limits;
  record.schedule = candidate.schedule.to_string();
  record.run = run_;
  record.repeat_command =
      fmt::format("fusetune verify --variant '{}' --schedule-text '{}'{}",
                  variant_at(candidate.variant).to_string(), record.schedule, settings_.repeat_options);
  return record;
}

void SegmentSearch::tell(const store::TuningRecord& record, const search::Candidate& candidate) {
  const measure::Measurement& measurement = record.measurement;
  const search::Trial trial = trial_of(measurement);
  ++counts_.outcomes[measurement.outcome];
  if (!trial.ok) {
    counts_.failures.push_back({variant_at(candidate.variant).to_string(), record.schedule,
                                measurement.message, record.repeat_command, measurement.outcome});
  }
  if (trial.ok) edges_.push_back(search::edge_of(candidate.variant, trial));
  if (best_.tell(candidate, trial)) best_sum_us_ = best_.best_sum_us();
  strategy_->tell(candidate, trial);
}

/// True when the store has the answer and the strategy was told.
bool SegmentSearch::answer_from_store(Job& job) {
  const std::optional<store::TuningRecord> known = store_.find(job.record.key);
  if (!known || (settings_.fresh && known->run != run_)) return false;
  job.retry = store::may_retry(*known, settings_.limits);
  if (job.retry) return false;
  ++counts_.reused;
  tell(*known, job.candidate);
  return true;
}

/// Candidates that have to run, those that may have taken a searching process down before last.
std::vector<SegmentSearch::Job> SegmentSearch::prepare(const std::vector<search::Candidate>& candidates) {
  std::vector<Job> jobs;
  for (const search::Candidate& candidate : candidates) {
    Job job{candidate, {}, {}, {}, false, false};
    try {
      job.source = generate(candidate.variant, candidate.schedule);
    } catch (const base::UsageError& refused) {
      // Nothing was generated: the schedule itself stands for its source.
      job.record = record_of(candidate, job.source);
      job.record.key.source_hash = "refused-" + base::hash_hex(candidate.schedule.to_string());
      if (!answer_from_store(job)) {
        finish(std::move(job), failure(Outcome::illegal, refused.what()));
      }
      continue;
    }
    job.record = record_of(candidate, job.source);
    if (!answer_from_store(job)) jobs.push_back(std::move(job));
  }
  std::stable_partition(jobs.begin(), jobs.end(), [](const Job& job) { return !job.retry; });
  return jobs;
}

/// Stores a result and tells the strategy, except that a noisy candidate first gets further chances.
void SegmentSearch::finish(Job job, measure::Measurement measurement) {
  job.record.measurement = std::move(measurement);
  if (job.record.measurement.outcome == Outcome::ok && !(job.record.measurement.reference_us > 0)) {
    // Timed by itself: no answer to who asks for times in units of the reference.
    store_.release(job.record.key);
    job.record.key.settings = settings_.timing_alone;
  }
  store_.record(job.record);
  ++counts_.measured;
  counts_.note_reference(job.record.measurement);
  if (job.record.measurement.outcome == Outcome::noisy) {
    const std::optional<store::TuningRecord> stored = store_.find(job.record.key);
    if (stored && store::may_retry(*stored)) {
      job.tried = true;
      stop_.measured(best_sum_us_);
      noisy_.push_back(std::move(job));
      return;
    }
  }
  tell(job.record, job.candidate);
  stop_.measured(best_sum_us_);
}

/// Where another search has been measuring the candidate, its answer is as good as ours.
Turn SegmentSearch::claim(Job& job, bool wait) {
  using store::ClaimPolicy;
  const ClaimPolicy policy = job.held                        ? ClaimPolicy::reuse
                             : settings_.fresh && !job.tried ? ClaimPolicy::fresh
                                                             : ClaimPolicy::retry;
  const auto claim = wait ? claim_in_turn(store_, job.record, policy) : store_.claim(job.record, policy);
  job.held = claim.state == store::ClaimState::held;
  if (job.held) return Turn::held;
  if (!claim.record) return Turn::granted;
  ++counts_.reused;  // measured meanwhile
  tell(*claim.record, job.candidate);
  return Turn::answered;
}

void SegmentSearch::show(SearchProgress& progress, const std::string& doing) const {
  StageProgress stage = stage_progress(counts_, stop_, seconds());
  stage.unit = "candidates";
  stage.expected = strategy_->expected();
  stage.doing = doing;
  progress.update(stage);
}

/// The jobs whose kernels compiled; the others are finished as failures.
std::vector<SegmentSearch::Job> SegmentSearch::compile(std::vector<Job> jobs, SearchProgress& progress) {
  if (jobs.empty()) return jobs;  // all answered by the store
  clock_.leave_out(settings_.begins_work());
  std::vector<codegen::AnyKernel> sources;
  for (const Job& job : jobs) sources.push_back(job.source);
  std::vector<CompileResult> results = session_.compile(
      sources, [&](int done, int total) { show(progress, fmt::format("compiling {}/{}", done, total)); });
  std::vector<Job> compiled;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    if (results[i].status == CompileResult::Status::ok) {
      const double seconds = results[i].kernel.compile_seconds;
      if (seconds > 0) counts_.compile_seconds.push_back(seconds);  // not from the cache
      jobs[i].kernel = std::move(results[i].kernel);
      compiled.push_back(std::move(jobs[i]));
    } else if (results[i].status == CompileResult::Status::unavailable) {
      // Nothing to keep: another time there may be a compiler.
      jobs[i].record.measurement = failure(Outcome::skipped, results[i].log);
      tell(jobs[i].record, jobs[i].candidate);
      stop_.measured(best_sum_us_);
    } else {
      finish(std::move(jobs[i]), failure(outcome_of(results[i].status), results[i].log));
    }
  }
  return compiled;
}

void SegmentSearch::measure(std::vector<Job> jobs, SearchProgress& progress) {
  const BatchSteps steps{
      .may_begin = [&](std::size_t measuring) { return stop_.may_begin(seconds(), measuring); },
      .claim = [&](std::size_t job, bool wait) { return claim(jobs[job], wait); },
      .kernels = [&](std::size_t job) -> measure::PlanKernels { return {jobs[job].kernel}; },
      .release = [&](std::size_t job) { store_.release(jobs[job].record.key); },
      .finish =
          [&](std::size_t job, measure::Measurement measurement) {
            finish(std::move(jobs[job]), std::move(measurement));
          },
      .progressed = [&] { show(progress, ""); },
  };
  // Jobs that already have a (noisy) result go back to those that wait for a better one.
  for (const std::size_t job : measure_jobs(measure_batch_of(session_), jobs.size(), false, steps))
    if (jobs[job].tried) noisy_.push_back(std::move(jobs[job]));
}

std::string SegmentSearch::run(SearchProgress& progress) {
  clock_.restart();
  while (true) {
    stop_if_interrupted();
    if (std::string reason = stop_.reached(seconds()); !reason.empty()) {
      for (const Job& noisy : noisy_) tell(noisy.record, noisy.candidate);
      return reason;
    }
    const auto limit =
        static_cast<int>(std::min<std::int64_t>(kSearchBatch, stop_.trials_left().value_or(kSearchBatch)));
    const std::vector<search::Candidate> candidates = strategy_->ask(limit);
    if (candidates.empty() && noisy_.empty()) return {};
    std::vector<Job> jobs =
        candidates.empty() ? std::exchange(noisy_, {}) : compile(prepare(candidates), progress);
    measure(std::move(jobs), progress);
    show(progress, "");
  }
}

std::vector<search::Finalist> SegmentSearch::finalists() const {
  return search::select_finalists(best_.costs(), settings_.finalists);
}

std::optional<lower::AnySchedule> SegmentSearch::schedule(int variant) const {
  const std::optional<search::Incumbents::Best>& best = best_[variant];
  return best ? std::optional(best->schedule) : std::nullopt;
}

Untimed SegmentSearch::untimed() const {
  const std::vector<search::UntimedCandidate> kernels = strategy_->untimed();
  const auto proved =
      std::count_if(kernels.begin(), kernels.end(), [](const auto& one) { return one.proved; });
  return {strategy_->pruned(), strategy_->left(), proved};
}

std::string SegmentSearch::summary() const {
  std::string text = fmt::format("{} of {} variants timed", best_.count(), plan::kVariantCount);
  const auto [pruned, left, proved] = untimed();
  const auto add = [&](std::int64_t count, const char* what) {
    if (count > 0) text += fmt::format(", {} kernel{} {}", count, count == 1 ? "" : "s", what);
  };
  add(pruned, "pruned by the model");
  add(proved, "not timed as no plan with them could be the best");
  add(left, "left untimed");
  if (strategy_->closed()) text += ", ended as the certificate closed";
  return text;
}

}  // namespace fusetune::cli
