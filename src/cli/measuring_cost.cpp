#include "cli/measuring_cost.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/number.h"
#include "base/text.h"
#include "measure/sampling.h"
#include "measure/timing.h"
#include "search/plan_strategy.h"

namespace fusetune::cli {
namespace {

using nlohmann::json;

/// Candidates measured, and the seconds that took.
struct Spent {
  double seconds = 0;
  std::int64_t measured = 0;

  void add(const Spent& other) {
    seconds += other.seconds;
    measured += other.measured;
  }
  double mean() const { return seconds / static_cast<double>(measured); }
};

/// What compiling took by the clock, one compiler a CPU.
double compile_seconds(const json& search, double cpus) {
  const json& each = search.at("median_compile_seconds");
  return each.is_number() ? search.at("compiled").get<double>() * each.get<double>() / cpus : 0;
}

/// Throws json::exception where the run does not say.
Spent spent_on(const json& result, double cpus) {
  if (result.contains("took")) {
    const json& took = result.at("took");
    return {took.at("measure_s").get<double>(), took.at("measured").get<std::int64_t>()};
  }
  // Searches before there was `took`: all but compiling.
  const json& search = result.at("search");
  return {result.at("seconds").get<double>() - compile_seconds(search, cpus),
          search.at("measured").get<std::int64_t>()};
}

double cpus_of(const store::Contents& contents) {
  const auto& fields = contents.environments.front().fields;
  const auto cpus = fields.find("cpus");
  return cpus == fields.end() ? 1 : std::max(1.0, base::parse_double(cpus->second).value_or(1));
}

/// A handful of candidates would say more of how a search begins.
constexpr std::int64_t kLeastMeasured = 20;

std::optional<MeasuringCost> from_searches(const store::Contents& contents) {
  Spent kernels, plans;
  for (const store::RunRecord& run : contents.runs) {
    if (run.state != store::RunState::finished) continue;
    try {
      const std::string strategy = json::parse(run.options).at("strategy");
      const Spent spent = spent_on(json::parse(run.result), cpus_of(contents));
      if (spent.measured < kLeastMeasured || !(spent.seconds > 0)) continue;
      if (strategy == "exhaustive") kernels.add(spent);
      if (search::find_plan_strategy(strategy) != nullptr) plans.add(spent);
    } catch (const json::exception&) {
      continue;  // an older version's row, or somebody else's: it says nothing of this
    }
  }
  if (kernels.measured == 0 || plans.measured == 0) return std::nullopt;
  return MeasuringCost{kernels.mean(), plans.mean(),
                       fmt::format("searches that measured {} kernels and {} plans, compilation left out",
                                   kernels.measured, plans.measured)};
}

/// "samples=24" of settings_text(); 0: not there.
double setting(const std::string& settings, const std::string& name) {
  for (const std::string& word : base::split(settings, ' '))
    if (word.starts_with(name + "=")) return base::parse_double(word.substr(name.size() + 1)).value_or(0);
  return 0;
}

/// Warm-up and samples, those of the reference included where there is one.
double sampling_seconds(const measure::Measurement& measurement, const std::string& settings) {
  const double sample = std::max(setting(settings, "min_time"), 1e-6 * measurement.time.median_us);
  const double reference = measurement.reference_us > 0
                               ? std::max(setting(settings, "min_time"), 1e-6 * measurement.reference_us)
                               : 0;
  return measure::kWarmUpSeconds +
         measure::least_series_seconds(static_cast<int>(setting(settings, "samples")), sample, reference);
}

const std::string& settings_of(const store::TuningRecord& record) { return record.key.settings; }
const std::string& settings_of(const store::PlanRecord& record) { return record.settings; }

template <typename Record>
double mean_sampling_seconds(const std::vector<Record>& records) {
  Spent spent;
  for (const Record& record : records)
    if (record.measurement.outcome == measure::Outcome::ok)
      spent.add({sampling_seconds(record.measurement, settings_of(record)), 1});
  if (spent.measured == 0) throw base::InternalError("nothing measured, so nothing known of what that takes");
  return spent.mean();
}

}  // namespace

MeasuringCost measuring_cost(const store::Contents& contents) {
  if (auto known = from_searches(contents)) return *known;
  return {mean_sampling_seconds(contents.segments), mean_sampling_seconds(contents.plans),
          "the timing protocol: samples and warm-up; checks, which cost both alike, are not in it"};
}

}  // namespace fusetune::cli
