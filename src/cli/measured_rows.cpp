#include "cli/measured_rows.h"

#include <algorithm>
#include <tuple>

#include "cli/plan_job.h"
#include "cli/session_options.h"
#include "plan/fusion_plan.h"
#include "store/tuning_store.h"

namespace fusetune::cli {
namespace {

const store::SegmentKey& key_of(const store::TuningRecord& segment) { return segment.key; }
const store::PlanKey& key_of(const store::PlanRecord& plan) { return plan.key(); }

/// Of the records that have a time and of which `is_wanted` is true; nullptr: there is none.
template <typename Record, typename IsWanted>
const Record* preferred(const std::vector<Record>& records, const std::string& settings,
                        const IsWanted& is_wanted) {
  const auto rank = [&](const Record& record) {
    const std::string& own = key_of(record).settings;
    const bool alike = own == settings || own.starts_with(settings + " reference=");
    return std::tuple(key_of(record).protocol, alike, record.created);
  };
  const Record* best = nullptr;
  for (const Record& record : records) {
    if (record.measurement.outcome != measure::Outcome::ok || !is_wanted(record)) continue;
    if (best == nullptr || rank(record) >= rank(*best)) best = &record;
  }
  return best;
}

}  // namespace

bool MeasuredRows::any() const {
  return plan.has_value() ||
         std::any_of(segments.begin(), segments.end(), [](const auto& row) { return row.has_value(); });
}

MeasuredRows find_measured_rows(const std::string& database, const measure::Session& session,
                                const measure::SessionOptions& options, plan::FusionMask mask,
                                std::span<const codegen::AnyKernel> kernels) {
  const store::TuningStore store(database, {.access = store::Access::look});
  const std::string problem = session.problem().key(), environment = session.environment().fingerprint;
  const std::string cache_mode(measure::name(options.cache)), data = data_identity(options);
  const std::string settings = store::settings_text(options.samples, options.min_sample_seconds);
  MeasuredRows rows;
  const std::string hash = sources_hash(kernels);
  const std::uint16_t canonical = plan::FusionPlan::from_mask(mask).canonical_mask().value;
  const auto plans = store.plan_records(problem, environment, cache_mode);
  if (const store::PlanRecord* plan = preferred(plans, settings, [&](const store::PlanRecord& record) {
        return record.mask == canonical && record.sources_hash == hash && record.data == data;
      })) {
    rows.plan = store.row_number(plan->key());
    rows.plan_us = plan->measurement.time.median_us;
  }
  const auto segments = store.records(problem, environment, cache_mode);
  for (const codegen::AnyKernel& kernel : kernels) {
    const auto is_of_kernel = [&](const store::TuningRecord& record) {
      return record.key.variant == plan::variant_index(kernel.variant()) &&
             record.key.source_hash == kernel.hash() && record.key.layouts == kernel.layouts() &&
             record.key.data == data;
    };
    const store::TuningRecord* segment = preferred(segments, settings, is_of_kernel);
    rows.segments.push_back(segment == nullptr ? std::nullopt : store.row_number(segment->key));
  }
  return rows;
}

}  // namespace fusetune::cli
