#include "cli/recorded_best.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "cli/plan_job.h"
#include "codegen/kernel_source.h"
#include "store/tuning_store.h"

namespace fusetune::cli {
namespace {

[[noreturn]] void fail(const std::string& database, const std::string& why) {
  throw base::UsageError(
      fmt::format("export best: {} in {}; run fusetune search with the same options first, or name a MASK",
                  why, database));
}

[[noreturn]] void fail_damaged(const std::string& database, std::int64_t run) {
  throw base::EnvironmentError(
      fmt::format("export best: the result of run {} in {} cannot be read", run, database));
}

/// The newest finished run of this problem here.
store::RunRecord newest_run(const store::TuningStore& store, const std::string& database,
                            const measure::Session& session) {
  bool elsewhere = false;
  for (store::RunRecord& run : store.runs()) {  // newest first
    if (run.problem != session.problem().key() || run.state != store::RunState::finished) continue;
    if (run.environment == session.environment().fingerprint) return std::move(run);
    elsewhere = true;
  }
  fail(database, elsewhere ? "searches of this problem are of another machine, compiler, --isa or --threads"
                           : "no finished search of this problem is");
}

void read_result(const nlohmann::json& best, RecordedBest& found) {
  const auto& time = best.at("time_us");
  found.plan = plan::FusionPlan::from_mask({best.at("mask").get<std::uint16_t>()});
  found.time_us = time.at("value");
  found.low_us = time.at("low");
  found.high_us = time.at("high").is_null() ? found.time_us : time.at("high").get<double>();
  found.pairs = best.at("pairs");
  const std::vector<plan::SegmentVariant> variants = found.plan.variants();
  const std::vector<std::string> schedules = best.at("schedules");
  for (std::size_t i = 0; i < variants.size(); ++i)
    found.schedules.set(variants[i], found.schedules.parse(schedules.at(i)), "search");
}

/// Of the segments of `found`, measured as `finalist` was.
std::vector<std::optional<std::int64_t>> segment_rows(const store::TuningStore& store,
                                                      const measure::Session& session,
                                                      const RecordedBest& found,
                                                      const store::PlanKey& finalist) {
  std::vector<std::optional<std::int64_t>> rows;
  for (const plan::SegmentVariant& variant : found.plan.variants()) {
    const lower::AnySchedule schedule = found.schedules(variant);
    if (!lower::refuse(schedule, variant, session.problem(), session.target()).empty()) {
      rows.emplace_back();  // of a library that is gone
      continue;
    }
    const codegen::AnyKernel source =
        codegen::generate(variant, schedule, session.problem(), session.target());
    rows.push_back(store.row_number(store::SegmentKey{.problem = finalist.problem,
                                                      .environment = finalist.environment,
                                                      .variant = plan::variant_index(variant),
                                                      .source_hash = source.hash(),
                                                      .layouts = source.layouts(),
                                                      .data = finalist.data,
                                                      .cache_mode = finalist.cache_mode,
                                                      .protocol = finalist.protocol,
                                                      .settings = finalist.settings}));
  }
  return rows;
}

}  // namespace

RecordedBest find_recorded_best(const std::string& database, const measure::Session& session) {
  std::error_code unknown;  // what is wrong then, opening it says
  if (!std::filesystem::exists(database, unknown) && !unknown)
    throw base::UsageError(
        fmt::format("export best: there is no database {}; run fusetune search with the same options first, "
                    "or name a MASK",
                    database));
  const store::TuningStore store(database, {.access = store::Access::look});
  const store::RunRecord run = newest_run(store, database, session);
  RecordedBest found{.schedules = ScheduleTable(session.problem(), session.target()),
                     .cache_mode = {},
                     .sources_hash = {},
                     .plan_row = {},
                     .segment_rows = {}};
  found.run = run.id;
  try {
    read_result(nlohmann::json::parse(run.result).at("best"), found);
  } catch (const nlohmann::json::exception&) {
    fail_damaged(database, run.id);
  } catch (const std::out_of_range&) {
    fail_damaged(database, run.id);
  }
  const std::uint16_t mask = found.plan.canonical_mask().value;
  for (const store::ComparisonRecord& finalist :
       store.find_finalists(run.finalists_hash).value_or(std::vector<store::ComparisonRecord>())) {
    if (finalist.plan.mask != mask) continue;
    found.cache_mode = finalist.plan.cache_mode;
    found.sources_hash = finalist.plan.sources_hash;
    found.plan_row = store.row_number(finalist.plan.key());
    found.segment_rows = segment_rows(store, session, found, finalist.plan.key());
  }
  return found;
}

}  // namespace fusetune::cli
