#include "report/search_json.h"

#include <fmt/core.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "plan/fusion_plan.h"
#include "report/json_path.h"

namespace fusetune::report {
namespace {

using Json = nlohmann::ordered_json;

Json finite(double value) { return std::isfinite(value) ? Json(value) : Json(); }

std::string plan_text(std::uint16_t mask) { return plan::FusionPlan::from_mask({mask}).to_string(); }

void add_measurement(Json& json, const measure::Measurement& measurement) {
  json["outcome"] = measure::name(measurement.outcome);
  json["message"] = measurement.message;
  if (measurement.outcome != measure::Outcome::ok) return;
  json["median_us"] = measurement.time.median_us;
  json["mad_us"] = measurement.time.mad_us;
  json["min_us"] = measurement.time.min_us;
  json["sample_count"] = measurement.time.count;
  json["samples_us"] = measurement.samples_us;
  if (measurement.reference_us > 0) {
    json["reference_us"] = measurement.reference_us;
    json["slowdown"] = finite(measurement.slowdown);
  }
  if (!measurement.device_uuid.empty()) json["device_uuid"] = measurement.device_uuid;
}

Json segment_json(const store::TuningRecord& record) {
  Json json = {{"kernel", plan::all_variants()[static_cast<std::size_t>(record.key.variant)].to_string()},
               {"variant", record.key.variant},
               {"schedule", record.schedule},
               {"how", how_measured(record)}};
  add_measurement(json, record.measurement);
  return json;
}

Json plan_json(const store::PlanRecord& record) {
  Json json = {{"mask", record.mask},
               {"plan", plan_text(record.mask)},
               {"schedules", record.schedules},
               {"sampled", store::name(record.sampled)},
               {"sum_us", record.sum_us > 0 ? Json(record.sum_us) : Json()},
               {"how", how_measured(record)}};
  add_measurement(json, record.measurement);
  return json;
}

Json finalist_json(const store::ComparisonRecord& finalist) {
  const measure::Measurement& measurement = finalist.plan.measurement;
  Json json = {{"mask", finalist.plan.mask}, {"plan", plan_text(finalist.plan.mask)}};
  json["outcome"] = measure::name(measurement.outcome);
  json["message"] = measurement.message;
  json["pairs"] = finalist.pairs;
  if (measurement.outcome != measure::Outcome::ok) return json;
  json["ratio"] = finalist.ratio;
  json["low"] = finite(finalist.low);
  json["high"] = finite(finalist.high);
  json["median_us"] = measurement.time.median_us;
  if (finalist.whole_over_sum) json["whole_over_sum"] = finite(finalist.whole_over_sum->ratio);
  return json;
}

Json environment_json(const store::Contents& contents) {
  Json json = Json::object();
  for (const store::EnvironmentRecord& environment : contents.environments)
    for (const auto& [field, value] : environment.fields) json[field] = value;
  return json;
}

}  // namespace

std::string how_measured(const store::TuningRecord& record) {
  return fmt::format("{}, protocol {}, {}", record.key.cache_mode, record.key.protocol, record.key.settings);
}

std::string how_measured(const store::PlanRecord& record) {
  return fmt::format("{}, protocol {}, {}", record.cache_mode, record.protocol, record.settings);
}

Json search_json(const store::Contents& contents, const store::RunRecord& run) {
  Json json = {{"kind", "search"},
               {"run", run.id},
               {"problem", run.problem},
               {"environment", run.environment},
               {"fields", environment_json(contents)},
               {"state", store::name(run.state)},
               {"started", run.started},
               {"finished", run.finished ? Json(*run.finished) : Json()},
               {"options", parse_or_null(run.options)},
               {"result", parse_or_null(run.result)},
               {"finalists", Json::array()},
               {"plans", Json::array()},
               {"segments", Json::array()}};
  if (const auto found = contents.finalists.find(run.id); found != contents.finalists.end())
    for (const store::ComparisonRecord& one : found->second) json["finalists"].push_back(finalist_json(one));
  for (const store::PlanRecord& one : contents.plans) json["plans"].push_back(plan_json(one));
  for (const store::TuningRecord& one : contents.segments) json["segments"].push_back(segment_json(one));
  return json;
}

}  // namespace fusetune::report
