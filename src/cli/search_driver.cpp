#include "cli/search_driver.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "cli/interrupt.h"

namespace fusetune::cli {
namespace {

using backend::cpu::CompileResult;
using measure::Outcome;

/// Candidates compiled together before they are measured: while anything is timed, nothing compiles.
constexpr int kBatch = 32;
constexpr int kMaximumRounds = 4;
/// Beside a new baseline only plans that are at most this much slower are timed again.
constexpr double kWithinReach = 1.03;
/// Pairs that can claim a difference of one percent, and pairs that screen. Between the two, as many as fit
/// into the seconds that comparing the finalists may take.
constexpr int kMostPairs = 160, kLeastPairs = 40;
constexpr double kSecondsOfPairs = 60;
/// Samples that a pair costs: two plans share one of the baseline.
constexpr double kSamplesPerPair = 1.5;
/// How often a finalist and its segments are timed in turn: enough for an interval of one or two percent.
constexpr int kRoundsWithParts = 20, kLeastRounds = 6;
constexpr auto kPoll = std::chrono::milliseconds(100);

Outcome outcome_of(CompileResult::Status status) {
  switch (status) {
    case CompileResult::Status::ok:
      return Outcome::ok;
    case CompileResult::Status::failed:
      return Outcome::compile_failed;
    case CompileResult::Status::timeout:
      return Outcome::timeout;
    case CompileResult::Status::resource_limit:
      return Outcome::resource_limit;
  }
  throw base::InternalError("unknown compile status");
}

measure::Measurement failure(Outcome outcome, const std::string& message) {
  measure::Measurement measurement;
  measurement.outcome = outcome;
  measurement.message = message;
  return measurement;
}

std::string layouts_text(const codegen::KernelSource& source) {
  std::string text;
  for (int i = 0; i < block::kWeightCount; ++i) {
    const auto& layout = source.layouts[static_cast<std::size_t>(i)];
    if (!layout) continue;
    text += (text.empty() ? "" : " ") + std::string(block::name(static_cast<block::Weight>(i))) + "=" +
            layout->to_string();
  }
  return text;
}

const plan::SegmentVariant& variant_at(int index) {
  return plan::all_variants()[static_cast<std::size_t>(index)];
}

search::Contender contender_of(const store::ComparisonRecord& record) {
  const plan::FusionMask mask{record.plan.mask};
  return {plan::FusionPlan::from_mask(mask), record.plan.measurement.outcome == Outcome::ok, record.ratio,
          record.low, record.high};
}

search::Decision decide(const std::vector<store::ComparisonRecord>& finalists) {
  std::vector<search::Contender> contenders;
  for (const store::ComparisonRecord& finalist : finalists) contenders.push_back(contender_of(finalist));
  search::Decision decision = search::decide(contenders);
  // After the last round somebody may still look faster than the baseline: then that one it is.
  if (decision.challenger) {
    decision.winner = *decision.challenger;
    decision.tied = {*decision.challenger};
  }
  return decision;
}

bool is_reference(const plan::FusionPlan& plan) {
  const auto references = search::reference_plans();
  return std::any_of(references.begin(), references.end(),
                     [&](const auto& reference) { return reference.plan == plan; });
}

}  // namespace

SearchDriver::SearchDriver(measure::Session& session, store::TuningStore& store, std::int64_t run,
                           SearchSettings settings)
    : session_(session),
      store_(store),
      run_(run),
      settings_(std::move(settings)),
      target_(session.target()),
      stop_(settings_.stop),
      best_sum_us_(std::numeric_limits<double>::infinity()) {}

double SearchDriver::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

codegen::KernelSource SearchDriver::generate(int variant, const lower::Schedule& schedule) const {
  return codegen::generate_cpu(variant_at(variant), schedule, session_.problem(), target_);
}

store::TuningRecord SearchDriver::record_of(const search::Candidate& candidate,
                                            const codegen::KernelSource& source) const {
  store::TuningRecord record;
  record.key = {.problem = session_.problem().key(),
                .environment = session_.environment().fingerprint,
                .variant = candidate.variant,
                .source_hash = source.hash,
                .layouts = layouts_text(source),
                .data = settings_.data,
                .cache_mode = settings_.cache_mode,
                .protocol = measure::kProtocolVersion,
                .settings = settings_.timing};
  record.limits = settings_.limits;
  record.schedule = candidate.schedule.to_string();
  record.run = run_;
  record.repeat_command =
      fmt::format("fusetune verify --variant '{}' --schedule-text '{}'{}",
                  variant_at(candidate.variant).to_string(), record.schedule, settings_.repeat_options);
  return record;
}

void SearchDriver::tell(const store::TuningRecord& record, const search::Candidate& candidate,
                        search::Strategy& strategy) {
  const measure::Measurement& measurement = record.measurement;
  const search::Trial trial{measurement.outcome == Outcome::ok, measurement.time.median_us};
  ++counts_.outcomes[measurement.outcome];
  if (!trial.ok) {
    counts_.failures.push_back({variant_at(candidate.variant).to_string(), record.schedule,
                                measurement.message, record.repeat_command, measurement.outcome});
  }
  if (best_.tell(candidate, trial)) note_new_best_sum();
  strategy.tell(candidate, trial);
}

void SearchDriver::note_new_best_sum() {
  const auto cheapest = plan::cheapest_plans(best_.costs(), 1);
  if (!cheapest.empty()) best_sum_us_ = cheapest.front().cost;
}

/// True when the store has the answer and the strategy was told.
bool SearchDriver::answer_from_store(Job& job, search::Strategy& strategy) {
  const std::optional<store::TuningRecord> known = store_.find(job.record.key);
  if (!known || (settings_.fresh && known->run != run_)) return false;
  job.retry = store::may_retry(*known, settings_.limits);
  if (job.retry) return false;
  ++counts_.reused;
  tell(*known, job.candidate, strategy);
  return true;
}

/// Candidates that have to run, those that may have taken a searching process down before last.
std::vector<SearchDriver::Job> SearchDriver::prepare(const std::vector<search::Candidate>& candidates,
                                                     search::Strategy& strategy) {
  std::vector<Job> jobs;
  for (const search::Candidate& candidate : candidates) {
    Job job{candidate, {}, {}, {}, false, false};
    try {
      job.source = generate(candidate.variant, candidate.schedule);
    } catch (const base::UsageError& refused) {
      // Nothing was generated: the schedule itself stands for its source.
      job.source.hash = "refused-" + base::hash_hex(candidate.schedule.to_string());
      job.record = record_of(candidate, job.source);
      if (!answer_from_store(job, strategy)) {
        finish(std::move(job), failure(Outcome::illegal, refused.what()), strategy);
      }
      continue;
    }
    job.record = record_of(candidate, job.source);
    if (!answer_from_store(job, strategy)) jobs.push_back(std::move(job));
  }
  std::stable_partition(jobs.begin(), jobs.end(), [](const Job& job) { return !job.retry; });
  return jobs;
}

/// Stores a result and tells the strategy, except that a noisy candidate first gets further chances.
void SearchDriver::finish(Job job, measure::Measurement measurement, search::Strategy& strategy) {
  job.record.measurement = std::move(measurement);
  store_.record(job.record);
  ++counts_.measured;
  if (job.record.measurement.outcome == Outcome::noisy) {
    const std::optional<store::TuningRecord> stored = store_.find(job.record.key);
    if (stored && store::may_retry(*stored)) {
      job.tried = true;
      stop_.measured(best_sum_us_);
      noisy_.push_back(std::move(job));
      return;
    }
  }
  tell(job.record, job.candidate, strategy);
  stop_.measured(best_sum_us_);
}

void SearchDriver::measure(Job job, search::Strategy& strategy) {
  const bool fresh = settings_.fresh && !job.tried;
  store::Claim claim =
      store_.claim(job.record, fresh ? store::ClaimPolicy::fresh : store::ClaimPolicy::retry);
  // Another search is measuring this very candidate: its answer is as good as ours.
  while (claim.state == store::Claim::State::held) {
    stop_if_interrupted();
    std::this_thread::sleep_for(kPoll);
    claim = store_.claim(job.record, store::ClaimPolicy::reuse);
  }
  if (claim.record) {  // measured meanwhile
    ++counts_.reused;
    tell(*claim.record, job.candidate, strategy);
    return;
  }
  measure::Measurement measurement;
  try {
    measurement = session_.measure_segment(job.kernel);
  } catch (...) {
    store_.release(job.record.key);
    throw;
  }
  if (interrupted() && measurement.outcome != Outcome::ok) {
    // The interrupt may be what made it fail: it says nothing about the candidate.
    store_.release(job.record.key);
    throw Interrupted{};
  }
  finish(std::move(job), std::move(measurement), strategy);
}

void SearchDriver::show(const search::Strategy& strategy, SearchProgress& progress,
                        const std::string& extra) const {
  progress.update(counts_.candidates(), strategy.expected(), counts_.reused, extra);
}

/// The jobs whose kernels compiled; the others are finished as failures.
std::vector<SearchDriver::Job> SearchDriver::compile(std::vector<Job> jobs, search::Strategy& strategy,
                                                     SearchProgress& progress) {
  if (jobs.empty()) return jobs;  // all answered by the store
  std::vector<codegen::KernelSource> sources;
  for (const Job& job : jobs) sources.push_back(job.source);
  std::vector<CompileResult> results = session_.compile(sources, [&](int done, int total) {
    stop_if_interrupted();
    show(strategy, progress, fmt::format(", compiling {}/{}", done, total));
  });
  std::vector<Job> compiled;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    if (results[i].status == CompileResult::Status::ok) {
      const double seconds = results[i].kernel.compile_seconds;
      if (seconds > 0) counts_.compile_seconds.push_back(seconds);  // not from the cache
      jobs[i].kernel = std::move(results[i].kernel);
      compiled.push_back(std::move(jobs[i]));
    } else {
      finish(std::move(jobs[i]), failure(outcome_of(results[i].status), results[i].log), strategy);
    }
  }
  return compiled;
}

/// Measures one after the other until a condition stops the search.
void SearchDriver::measure(std::vector<Job> jobs, search::Strategy& strategy, SearchProgress& progress) {
  for (auto job = jobs.begin(); job != jobs.end(); ++job) {
    stop_if_interrupted();
    if (!stop_.reached(seconds()).empty()) {
      // Jobs that already have a (noisy) result go back to those that wait for a better one.
      std::copy_if(job, jobs.end(), std::back_inserter(noisy_), [](const Job& each) { return each.tried; });
      return;
    }
    measure(std::move(*job), strategy);
    show(strategy, progress, "");
  }
}

std::string SearchDriver::measure_segments(search::Strategy& strategy, SearchProgress& progress) {
  start_ = std::chrono::steady_clock::now();
  while (true) {
    stop_if_interrupted();
    if (std::string reason = stop_.reached(seconds()); !reason.empty()) {
      for (const Job& noisy : noisy_) tell(noisy.record, noisy.candidate, strategy);
      return reason;
    }
    const auto limit = static_cast<int>(std::min<std::int64_t>(kBatch, stop_.trials_left()));
    const std::vector<search::Candidate> candidates = strategy.ask(limit);
    if (candidates.empty() && noisy_.empty()) return {};
    std::vector<Job> jobs = candidates.empty() ? std::exchange(noisy_, {})
                                               : compile(prepare(candidates, strategy), strategy, progress);
    measure(std::move(jobs), strategy, progress);
    show(strategy, progress, "");
  }
}

std::vector<search::Finalist> SearchDriver::finalists() const {
  return search::select_finalists(best_.costs(), settings_.finalists);
}

/// A finalist on its way: sources, then kernels, then its place in the comparison.
struct SearchDriver::Entry {
  plan::FusionPlan plan;
  std::vector<codegen::KernelSource> sources;
  measure::PlanKernels kernels;
  store::ComparisonRecord record;
};

bool SearchDriver::is_ok(const Entry& entry) { return entry.record.plan.measurement.outcome == Outcome::ok; }

std::vector<store::ComparisonRecord> SearchDriver::records_of(const std::vector<Entry>& entries) {
  std::vector<store::ComparisonRecord> records;
  for (const Entry& entry : entries) records.push_back(entry.record);
  return records;
}

std::vector<SearchDriver::Entry> SearchDriver::entries_of(
    const std::vector<search::Finalist>& finalists) const {
  std::vector<Entry> entries;
  for (const search::Finalist& finalist : finalists) {
    Entry entry{finalist.plan, {}, {}, {}};
    base::Hasher sources;
    store::PlanRecord& record = entry.record.plan;
    for (const plan::SegmentVariant& variant : finalist.plan.variants()) {
      const int index = plan::variant_index(variant);
      const std::optional<search::Incumbents::Best>& best = best_[index];
      if (!best) throw base::InternalError("a segment of a finalist was never timed");
      const codegen::KernelSource& source = entry.sources.emplace_back(generate(index, best->schedule));
      record.schedules.push_back(best->schedule.to_string());
      sources.add(source.hash).add(layouts_text(source));
    }
    record.problem = session_.problem().key();
    record.environment = session_.environment().fingerprint;
    record.mask = finalist.plan.canonical_mask().value;
    record.sources_hash = sources.hex();
    record.data = settings_.data;
    record.cache_mode = settings_.cache_mode;
    record.protocol = measure::kProtocolVersion;
    record.settings = settings_.timing;
    record.limits = settings_.limits;
    record.repeat_command = fmt::format("fusetune bench {}{}", record.mask, settings_.repeat_options);
    record.sum_us = finalist.sum_us;
    entries.push_back(std::move(entry));
  }
  return entries;
}

/// How often all entries can be timed within kSecondsOfPairs, where one time takes `samples` of each.
int SearchDriver::times_that_fit(const std::vector<Entry>& entries, double samples, int least, int most) {
  double seconds = 0;
  for (const Entry& entry : entries) seconds += samples * entry.record.plan.sum_us * 1e-6;
  return static_cast<int>(std::clamp<double>(kSecondsOfPairs / seconds, least, most));
}

int SearchDriver::pairs_for(const std::vector<Entry>& entries) const {
  if (settings_.pairs > 0) return settings_.pairs;
  return times_that_fit(entries, kSamplesPerPair, kLeastPairs, kMostPairs);
}

std::string SearchDriver::finalists_hash(const std::vector<Entry>& entries, int pairs) const {
  base::Hasher hasher;
  hasher.add(session_.problem().key()).add(session_.environment().fingerprint).add(settings_.data);
  hasher.add(settings_.cache_mode).add(static_cast<std::uint64_t>(measure::kProtocolVersion));
  hasher.add(settings_.timing);
  hasher.add(static_cast<std::uint64_t>(pairs));
  for (const Entry& entry : entries) {
    hasher.add(static_cast<std::uint64_t>(entry.record.plan.mask)).add(entry.record.plan.sources_hash);
  }
  return hasher.hex();
}

void SearchDriver::compile_entries(std::vector<Entry>& entries) {
  std::vector<codegen::KernelSource> sources;
  std::map<std::string, std::size_t> index_of;  // by symbol: each kernel is compiled once for all plans
  for (const Entry& entry : entries) {
    for (const codegen::KernelSource& source : entry.sources) {
      if (index_of.emplace(source.symbol, sources.size()).second) sources.push_back(source);
    }
  }
  const std::vector<CompileResult> compiled =
      session_.compile(sources, [](int, int) { stop_if_interrupted(); });
  for (Entry& entry : entries) {
    entry.record.plan.measurement.outcome = Outcome::ok;
    for (const codegen::KernelSource& source : entry.sources) {
      const CompileResult& result = compiled[index_of.at(source.symbol)];
      if (result.status != CompileResult::Status::ok) {
        entry.record.plan.measurement = failure(outcome_of(result.status), result.log);
        break;
      }
      entry.kernels.push_back(result.kernel);
    }
  }
}

/// Rounds of comparison until no plan is clearly faster than the baseline. Plans that fail, or fall so far
/// back that they are not timed again, go to the end.
std::vector<SearchDriver::Entry> SearchDriver::compare(std::vector<Entry> entries, int pairs) {
  std::vector<Entry> failed;
  const auto drop_failed = [&] {
    const auto first_failed = std::stable_partition(entries.begin(), entries.end(), is_ok);
    std::move(first_failed, entries.end(), std::back_inserter(failed));
    entries.erase(first_failed, entries.end());
  };
  for (int round = 1; drop_failed(), !entries.empty(); ++round) {
    std::vector<measure::PlanKernels> plans;
    for (const Entry& entry : entries) plans.push_back(entry.kernels);
    const std::vector<measure::PairedComparison> results = session_.compare_plans(plans, pairs);
    const bool baseline_failed = results[0].outcome != Outcome::ok;
    std::vector<search::Contender> contenders;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      store::ComparisonRecord& record = entries[i].record;
      // Nobody can be judged by a baseline that failed: only that one is out.
      if (baseline_failed && i > 0 && results[i].outcome == Outcome::skipped) continue;
      record.plan.measurement = failure(results[i].outcome, results[i].message);
      record.plan.measurement.time = i == 0 ? results[i].time_a : results[i].time_b;
      record.ratio = results[i].ratio;
      record.low = results[i].low;
      record.high = results[i].high;
      record.pairs = results[i].pairs;
      contenders.push_back(contender_of(record));
    }
    if (baseline_failed) continue;
    const std::optional<std::size_t> challenger = search::decide(contenders).challenger;
    if (!challenger || round >= kMaximumRounds) break;
    const double reach = contenders[*challenger].ratio * kWithinReach;
    Entry next = std::move(entries[*challenger]);
    entries.erase(entries.begin() + static_cast<std::ptrdiff_t>(*challenger));
    for (Entry& entry : entries) {
      if (!is_ok(entry) || entry.record.low <= reach || is_reference(entry.plan)) continue;
      entry.record.plan.measurement = failure(
          Outcome::skipped, fmt::format("clearly slower than mask {} ({:.3f} times its time)",
                                        next.record.plan.mask, entry.record.ratio / next.record.ratio));
    }
    entries.insert(entries.begin(), std::move(next));
  }
  drop_failed();
  std::move(failed.begin(), failed.end(), std::back_inserter(entries));
  return entries;
}

/// Whole against the sum of its segments, beside each other: times taken minutes apart differ by more than
/// what is asked here. The answer is complete without it, so that an interrupt only ends it.
void SearchDriver::compare_with_parts(std::vector<Entry>& entries) {
  const int rounds = times_that_fit(entries, 2, kLeastRounds, kRoundsWithParts);
  try {
    for (Entry& entry : entries) {
      if (!is_ok(entry)) continue;
      const measure::PairedComparison parts = session_.compare_with_parts(entry.kernels, rounds);
      if (parts.outcome == Outcome::ok) entry.record.whole_over_sum = {parts.ratio, parts.low, parts.high};
    }
  } catch (const Interrupted&) {
    base::note("interrupted while plans were timed beside their segments: the rest of that is left out");
  }
}

std::optional<FinalResult> SearchDriver::time_finalists(const std::vector<search::Finalist>& finalists) {
  std::vector<Entry> entries = entries_of(finalists);
  FinalResult result;
  const int pairs = pairs_for(entries);
  result.hash = finalists_hash(entries, pairs);
  if (!settings_.fresh) {
    if (auto known = store_.find_finalists(result.hash)) {
      result.finalists = std::move(*known);
      result.reused = true;
    }
  }
  if (!result.reused) {
    compile_entries(entries);
    entries = compare(std::move(entries), pairs);
    store_.record_finalists(run_, records_of(entries));
    compare_with_parts(entries);
    result.finalists = records_of(entries);
    store_.record_finalists(run_, result.finalists);
  }
  if (result.finalists.empty() || result.finalists[0].plan.measurement.outcome != Outcome::ok)
    return std::nullopt;
  result.decision = decide(result.finalists);
  return result;
}

}  // namespace fusetune::cli
