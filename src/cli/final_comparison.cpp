#include "cli/final_comparison.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "cli/interrupt.h"
#include "measure/comparison.h"

namespace fusetune::cli {
namespace {

using measure::Outcome;

constexpr int kMaximumRounds = 4;
/// Beside a new baseline only plans that are at most this much slower are timed again.
constexpr double kWithinReach = 1.03;
/// Pairs that tell plans two percent apart, and pairs that screen. Between the two, as many as fit into
/// SearchSettings::comparison_s.
constexpr int kMostPairs = 160, kLeastPairs = 40;
/// How often a finalist and its segments are timed in turn, in each process. With two one outlier or two were
/// the lower limit of some finalist, and so the certificate's.
constexpr int kMostRounds = 4, kLeastRounds = 2;

search::Contender contender_of(const store::ComparisonRecord& record) {
  const plan::FusionMask mask{record.plan.mask};
  return {plan::FusionPlan::from_mask(mask), record.plan.measurement.outcome == Outcome::ok, record.ratio,
          record.low, record.high};
}

search::Decision judge(const std::vector<store::ComparisonRecord>& finalists) {
  std::vector<search::Contender> contenders;
  for (const store::ComparisonRecord& finalist : finalists) contenders.push_back(contender_of(finalist));
  return search::decide(contenders);
}

search::Decision decide(const std::vector<store::ComparisonRecord>& finalists) {
  search::Decision decision = judge(finalists);
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

/// True where a plan with this result has run whole without harm, timed or not.
bool has_run(Outcome outcome) {
  return outcome == Outcome::ok || outcome == Outcome::noisy || outcome == Outcome::skipped;
}

void take(store::ComparisonRecord& record, const measure::PairedComparison& result,
          const measure::TimingSummary& time) {
  record.plan.measurement = failure(result.outcome, result.message);
  record.plan.measurement.time = time;
  record.plan.measurement.samples_us = result.samples_us;
  record.plan.measurement.device_uuid = result.device_uuid;
  record.ratio = result.ratio;
  record.low = result.low;
  record.high = result.high;
  record.pairs = result.pairs;
}

}  // namespace

FinalComparison::FinalComparison(measure::Session& session, store::TuningStore& store, std::int64_t run,
                                 const SearchSettings& settings, SearchProgress& progress)
    : session_(session), store_(store), run_(run), settings_(settings), progress_(progress) {}

/// Takes the counts of a step of the finals, which begins now, and shows them.
std::function<void(int, int)> FinalComparison::shows(std::string stage, const char* unit) const {
  const auto start = std::chrono::steady_clock::now();
  return [this, stage = std::move(stage), unit, start](int done, int total) {
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    // At most: plans that are clearly apart are dropped on the way.
    progress_.update({.stage = stage,
                      .unit = unit,
                      .done = done,
                      .expected = total,
                      .at_most = true,
                      .seconds = seconds.count()});
  };
}

bool FinalComparison::is_ok(const Entry& entry) {
  return entry.record.plan.measurement.outcome == Outcome::ok;
}

std::vector<store::ComparisonRecord> FinalComparison::records_of(const std::vector<Entry>& entries) {
  std::vector<store::ComparisonRecord> records;
  for (const Entry& entry : entries) records.push_back(entry.record);
  return records;
}

std::vector<FinalComparison::Entry> FinalComparison::entries_of(
    const std::vector<search::Finalist>& finalists, const ScheduleOf& schedule_of) const {
  std::vector<Entry> entries;
  for (const search::Finalist& finalist : finalists) {
    Entry entry{make_plan_job(finalist.plan, schedule_of, session_, settings_), finalist.expected_us, {}};
    entry.record.plan = entry.job.record;
    entry.record.plan.run = run_;
    entry.record.plan.sum_us = finalist.sum_us;
    entries.push_back(std::move(entry));
  }
  return entries;
}

/// As many as fit into the comparison's time. Two plans share a turn of the baseline, and each turn begins
/// with untimed passes.
int FinalComparison::pairs_for(const std::vector<Entry>& entries) const {
  if (settings_.pairs > 0) return settings_.pairs;
  const double untimed = static_cast<double>(session_.untimed_passes()) / measure::kSamplesPerTurn;
  double seconds = 0;  // of a pair of each
  for (const Entry& entry : entries) seconds += 1.5 * (1 + untimed) * entry.expected_us * 1e-6;
  return static_cast<int>(std::clamp<double>(settings_.comparison_s / seconds, kLeastPairs, kMostPairs));
}

std::string FinalComparison::hash_of(const std::vector<Entry>& entries, int pairs) const {
  base::Hasher hasher;
  hasher.add(session_.problem().key()).add(session_.environment().fingerprint).add(settings_.data);
  hasher.add(settings_.cache_mode).add(static_cast<std::uint64_t>(measure::kProtocolVersion));
  hasher.add(static_cast<std::uint64_t>(measure::kComparisonVersion)).add(settings_.timing);
  hasher.add(static_cast<std::uint64_t>(pairs));
  for (const Entry& entry : entries) {
    hasher.add(static_cast<std::uint64_t>(entry.record.plan.mask)).add(entry.record.plan.sources_hash);
  }
  return hasher.hex();
}

void FinalComparison::compile(std::vector<Entry>& entries) {
  std::vector<PlanJob> jobs;
  for (Entry& entry : entries) jobs.push_back(std::move(entry.job));
  compile_plans(session_, jobs, shows("compiling for the finals", "kernels"));
  for (std::size_t i = 0; i < entries.size(); ++i) {
    entries[i].job = std::move(jobs[i]);
    entries[i].record.plan.measurement = entries[i].job.record.measurement;
  }
}

/// Those that there is no compiler for here: what is compared and kept is a comparison of the others. True
/// where there were any.
bool FinalComparison::leave_out_unavailable(std::vector<Entry>& entries) {
  const auto removed = std::erase_if(entries, [](const Entry& entry) {
    const store::PlanRecord& plan = entry.record.plan;
    if (plan.measurement.outcome != Outcome::skipped) return false;
    base::note(fmt::format("mask {} is left out of the finals: {}", plan.mask, plan.measurement.message));
    return true;
  });
  return removed > 0;
}

/// Runs a plan once, unless the store knows what comes of that, under a claim of its own: should it take this
/// process or the machine down, the next search knows the culprit. Of plans that are compared, which run by
/// turns, it could not.
void FinalComparison::try_out(Entry& entry) {
  store::PlanRecord& record = entry.record.plan;
  const std::optional<store::PlanRecord> known = store_.find_plan(record.key());
  if (known && has_run(known->measurement.outcome)) return;
  const bool fresh = settings_.fresh && known && known->run != run_;
  const store::PlanClaim claim =
      claim_in_turn(store_, record, fresh ? store::ClaimPolicy::fresh : store::ClaimPolicy::retry);
  if (claim.record) {
    if (!has_run(claim.record->measurement.outcome)) record.measurement = claim.record->measurement;
    return;
  }
  measure::CheckResult check;
  try {
    check = session_.check_plan(entry.job.kernels);
    // The interrupt may be what made it fail: it says nothing about the plan.
    if (check.outcome != Outcome::ok) stop_if_interrupted();
  } catch (...) {
    store_.release_plan(record.key());
    throw;
  }
  if (check.outcome == Outcome::ok) {
    store_.release_plan(record.key());  // the comparison will have its time
    return;
  }
  record.measurement = failure(check.outcome, check.message);
  store_.record_plan(record);
}

/// Times all against the first, and that beside the reference. False: the first failed, and nobody can be
/// judged by it.
bool FinalComparison::time_round(std::vector<Entry>& entries, int pairs, int round) {
  const measure::Measurement beside = session_.measure_plan(entries[0].job.kernels);
  std::vector<measure::PlanKernels> plans;
  for (const Entry& entry : entries) plans.push_back(entry.job.kernels);
  const std::vector<measure::PairedComparison> results =
      session_.compare_plans(plans, pairs, shows(fmt::format("finals, round {}", round), "samples"));
  const bool baseline_failed = results[0].outcome != Outcome::ok;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (baseline_failed && i > 0 && results[i].outcome == Outcome::skipped) continue;  // it can do better
    take(entries[i].record, results[i], i == 0 ? results[i].time_a : results[i].time_b);
  }
  if (!baseline_failed) relate_to_reference(entries, beside);
  return !baseline_failed;
}

/// The report gives the times that were seen here, the store keeps plans' times in units of the reference, as
/// it does all others. `beside`: the baseline timed beside the reference, which says how fast the machine
/// was. Where the reference did not run the times are the clock's, and of other settings.
void FinalComparison::relate_to_reference(std::vector<Entry>& entries, const measure::Measurement& beside) {
  const bool related = beside.outcome == Outcome::ok && beside.reference_us > 0;
  for (Entry& entry : entries) {
    if (!is_ok(entry)) continue;
    entry.record.plan.settings = related ? settings_.timing : settings_.timing_alone;
    if (!related) continue;
    measure::Measurement& measurement = entry.record.plan.measurement;
    measurement.reference_us = beside.reference_us;
    // By its ratio: plans that were clearly apart were timed for a while only.
    measurement.slowdown = measurement.time.median_us / (beside.time.median_us * entry.record.ratio);
  }
}

/// Puts the challenger first. Who is too far behind it is not timed again.
void FinalComparison::make_baseline(std::vector<Entry>& entries, std::size_t challenger) {
  const double reach = entries[challenger].record.ratio * kWithinReach;
  Entry next = std::move(entries[challenger]);
  entries.erase(entries.begin() + static_cast<std::ptrdiff_t>(challenger));
  for (Entry& entry : entries) {
    if (!is_ok(entry) || entry.record.low <= reach || is_reference(entry.job.plan)) continue;
    entry.record.plan.measurement =
        failure(Outcome::skipped, fmt::format("clearly slower than mask {} ({:.3f} times its time)",
                                              next.record.plan.mask, entry.record.ratio / next.record.ratio));
  }
  entries.insert(entries.begin(), std::move(next));
}

/// Rounds of comparison until no plan is clearly faster than the baseline, or time is up; each is stored, so
/// that an interrupt costs the one that it ends. Plans that fail, or fall so far back that they are not timed
/// again, go to the end.
std::vector<FinalComparison::Entry> FinalComparison::compare(std::vector<Entry> entries, int pairs) {
  std::vector<Entry> failed;
  const auto start = std::chrono::steady_clock::now();
  const auto time_is_up = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() >
           settings_.comparison_s;
  };
  const auto drop_failed = [&] {
    const auto first_failed = std::stable_partition(entries.begin(), entries.end(), is_ok);
    std::move(first_failed, entries.end(), std::back_inserter(failed));
    entries.erase(first_failed, entries.end());
  };
  for (int round = 1; drop_failed(), !entries.empty(); ++round) {
    if (!time_round(entries, pairs, round)) continue;
    std::vector<store::ComparisonRecord> seen = records_of(entries), out = records_of(failed);
    const std::optional<std::size_t> challenger = judge(seen).challenger;
    std::move(out.begin(), out.end(), std::back_inserter(seen));
    store_.record_finalists(run_, seen);
    if (!challenger || round >= kMaximumRounds || time_is_up()) break;
    make_baseline(entries, *challenger);
  }
  drop_failed();
  std::move(failed.begin(), failed.end(), std::back_inserter(entries));
  return entries;
}

/// In all processes: as many as fit into the comparison's time, roughly.
int FinalComparison::rounds_with_parts(const std::vector<Entry>& entries) const {
  double seconds = 0;  // of a round of all in each process
  for (const Entry& entry : entries) seconds += 2 * measure::kMostProcesses * entry.expected_us * 1e-6;
  const double fit = settings_.comparison_s / seconds - session_.untimed_passes();
  return measure::kMostProcesses * static_cast<int>(std::clamp<double>(fit, kLeastRounds, kMostRounds));
}

/// Whole against the sum of its segments, beside each other: times taken minutes apart differ by more than
/// what is asked here. The answer is complete without this, so that an interrupt ends it and no more.
void FinalComparison::compare_with_parts(std::vector<Entry>& entries) {
  std::vector<Entry*> timed;
  std::vector<measure::PlanKernels> plans;
  for (Entry& entry : entries) {
    if (!is_ok(entry)) continue;
    timed.push_back(&entry);
    plans.push_back(entry.job.kernels);
  }
  if (plans.empty()) return;
  try {
    const std::vector<measure::PairedComparison> parts = session_.compare_with_parts(
        plans, rounds_with_parts(entries), shows("plans beside their segments", "rounds"));
    for (std::size_t i = 0; i < parts.size(); ++i)
      if (parts[i].outcome == Outcome::ok)
        timed[i]->record.whole_over_sum = {parts[i].ratio, parts[i].low, parts[i].high};
  } catch (const Interrupted&) {
    base::note("interrupted while plans were timed beside their segments: that is left out");
  }
}

bool FinalComparison::is_known(const std::vector<search::Finalist>& finalists,
                               const ScheduleOf& schedule_of) const {
  if (settings_.fresh) return false;
  const std::vector<Entry> entries = entries_of(finalists, schedule_of);
  return store_.find_finalists(hash_of(entries, pairs_for(entries))).has_value();
}

std::optional<FinalResult> FinalComparison::time(const std::vector<search::Finalist>& finalists,
                                                 const ScheduleOf& schedule_of) {
  std::vector<Entry> entries = entries_of(finalists, schedule_of);
  FinalResult result;
  const int pairs = pairs_for(entries);
  result.hash = hash_of(entries, pairs);
  if (!settings_.fresh) {
    if (auto known = store_.find_finalists(result.hash)) {
      result.finalists = std::move(*known);
      result.reused = true;
    }
  }
  if (!result.reused) {
    settings_.begins_work();
    compile(entries);
    if (leave_out_unavailable(entries)) result.hash = hash_of(entries, pairs);
    for (Entry& entry : entries)
      if (is_ok(entry)) try_out(entry);
    entries = compare(std::move(entries), pairs);
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
