#include "cli/plan_job.h"

#include <fmt/core.h>

#include <chrono>
#include <map>
#include <thread>

#include "base/error.h"
#include "base/hash.h"
#include "cli/interrupt.h"
#include "cli/schedule_option.h"

namespace fusetune::cli {

using backend::CompileResult;
using measure::Outcome;

measure::Measurement failure(Outcome outcome, const std::string& message) {
  measure::Measurement measurement;
  measurement.outcome = outcome;
  measurement.message = message;
  return measurement;
}

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
    case CompileResult::Status::unavailable:
      return Outcome::skipped;
  }
  throw base::InternalError("unknown compile status");
}

std::string sources_hash(std::span<const codegen::AnyKernel> kernels) {
  base::Hasher hasher;
  for (const codegen::AnyKernel& kernel : kernels) hasher.add(kernel.hash()).add(kernel.layouts());
  return hasher.hex();
}

PlanJob make_plan_job(const plan::FusionPlan& plan, const ScheduleOf& schedule_of,
                      const measure::Session& session, const SearchSettings& settings) {
  PlanJob job{plan, {}, {}, {}};
  store::PlanRecord& record = job.record;
  std::string schedule_options;
  for (const plan::SegmentVariant& variant : plan.variants()) {
    const std::optional<lower::AnySchedule> schedule = schedule_of(plan::variant_index(variant));
    if (!schedule)
      throw base::InternalError("segment " + variant.to_string() + " of a plan to be timed has no schedule");
    job.sources.push_back(codegen::generate(variant, *schedule, session.problem(), session.target()));
    record.schedules.push_back(schedule->to_string());
    schedule_options += schedule_text_option(variant, record.schedules.back());
  }
  record.problem = session.problem().key();
  record.environment = session.environment().fingerprint;
  record.mask = plan.canonical_mask().value;
  record.sources_hash = sources_hash(job.sources);
  record.data = settings.data;
  record.cache_mode = settings.cache_mode;
  record.protocol = measure::kProtocolVersion;
  record.settings = settings.timing;
  record.limits = settings.limits;
  record.repeat_command =
      fmt::format("fusetune bench {}{}{}", record.mask, schedule_options, settings.repeat_options);
  return job;
}

namespace {

/// `claim(policy)` asks once.
template <typename Claim>
auto wait_for_turn(const Claim& claim, store::ClaimPolicy policy) {
  constexpr auto kPoll = std::chrono::milliseconds(100);
  auto answer = claim(policy);
  while (answer.state == store::ClaimState::held) {
    stop_if_interrupted();
    std::this_thread::sleep_for(kPoll);
    answer = claim(store::ClaimPolicy::reuse);
  }
  return answer;
}

}  // namespace

store::Claim claim_in_turn(store::TuningStore& store, const store::TuningRecord& record,
                           store::ClaimPolicy policy) {
  return wait_for_turn([&](store::ClaimPolicy each) { return store.claim(record, each); }, policy);
}

store::PlanClaim claim_in_turn(store::TuningStore& store, const store::PlanRecord& record,
                               store::ClaimPolicy policy) {
  return wait_for_turn([&](store::ClaimPolicy each) { return store.claim_plan(record, each); }, policy);
}

std::vector<CompileResult> compile_plans(measure::Session& session, std::vector<PlanJob>& jobs,
                                         const std::function<void(int, int)>& progress) {
  std::vector<codegen::AnyKernel> sources;
  std::map<std::string, std::size_t> index_of;  // by symbol
  for (const PlanJob& job : jobs) {
    for (const codegen::AnyKernel& source : job.sources) {
      if (index_of.emplace(source.symbol(), sources.size()).second) sources.push_back(source);
    }
  }
  std::vector<CompileResult> compiled = session.compile(sources, progress);
  for (PlanJob& job : jobs) {
    job.record.measurement.outcome = Outcome::ok;
    for (const codegen::AnyKernel& source : job.sources) {
      const CompileResult& result = compiled[index_of.at(source.symbol())];
      if (result.status != CompileResult::Status::ok) {
        job.record.measurement = failure(outcome_of(result.status), result.log);
        break;
      }
      job.kernels.push_back(result.kernel);
    }
  }
  return compiled;
}

store::SegmentKey segment_key(int variant, const codegen::AnyKernel& source, const measure::Session& session,
                              const SearchSettings& settings) {
  return {.problem = session.problem().key(),
          .environment = session.environment().fingerprint,
          .variant = variant,
          .source_hash = source.hash(),
          .layouts = source.layouts(),
          .data = settings.data,
          .cache_mode = settings.cache_mode,
          .protocol = measure::kProtocolVersion,
          .settings = settings.timing};
}

}  // namespace fusetune::cli
