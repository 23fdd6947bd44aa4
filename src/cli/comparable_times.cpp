#include "cli/comparable_times.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "base/number.h"

namespace fusetune::cli {
namespace {

using Times = std::map<TimeUnit, std::size_t>;

template <typename Record>
TimeUnit unit(const Record& record, const store::Trial& trial) {
  return {record.problem, record.data, record.settings, record.protocol, trial.measurement.reference_us};
}

Times of_newest_protocol(const Times& times) {
  int newest = 0;
  for (const auto& [unit, count] : times) newest = std::max(newest, unit.protocol);
  Times kept = times;
  std::erase_if(kept, [&](const auto& entry) { return entry.first.protocol != newest; });
  return kept;
}

/// Times beside a reference and times alone have nothing in common, not even across problems.
Times with_or_without_reference(Times times) {
  std::size_t with = 0, without = 0;
  for (const auto& [unit, count] : times) (unit.reference_us > 0 ? with : without) += count;
  std::erase_if(times,
                [&](const auto& entry) { return (entry.first.reference_us > 0) != (with >= without); });
  return times;
}

/// "data generated, samples=12 min_time=0.001, protocol 2, reference 3346.8 us"
std::string describe(const TimeUnit& unit) {
  return fmt::format("data {}, {}, protocol {}, {}", unit.data, unit.settings, unit.protocol,
                     unit.reference_us > 0
                         ? fmt::format("reference {} us", base::format_fixed(unit.reference_us, 1))
                         : "no reference");
}

}  // namespace

std::string describe(const store::EnvironmentRecord& environment) {
  std::string text = environment.fingerprint;
  for (const char* key : {"device", "isa", "threads", "compiler"})
    if (const auto field = environment.fields.find(key); field != environment.fields.end())
      text += fmt::format(", {} {}", key, field->second);
  return text;
}

const store::EnvironmentRecord& choose_environment(const std::vector<store::EnvironmentRecord>& environments,
                                                   const std::string& wanted, const std::string& source,
                                                   const std::string& remedy) {
  std::vector<const store::EnvironmentRecord*> fitting;
  std::string list;
  for (const store::EnvironmentRecord& environment : environments) {
    list += "\n  " + describe(environment);
    if (environment.fingerprint.starts_with(wanted)) fitting.push_back(&environment);
  }
  if (fitting.size() == 1) return *fitting.front();
  const std::string found = wanted.empty() ? fmt::format("measurements of {} environments", fitting.size())
                                           : fmt::format("{} of {} environments whose fingerprint begins so",
                                                         fitting.size(), environments.size());
  throw base::UsageError(fmt::format("{}: {}; {}:{}", source, found, remedy, list));
}

TimeUnit unit_of(const store::TuningRecord& segment) { return unit(segment.key, segment); }
TimeUnit unit_of(const store::PlanRecord& plan) { return unit(plan.key(), plan); }

std::set<TimeUnit> choose_units(const std::map<TimeUnit, std::size_t>& times) {
  std::map<std::string, Times::value_type> most;  // by problem
  for (const Times::value_type& entry : with_or_without_reference(of_newest_protocol(times))) {
    const auto known = most.find(entry.first.problem);
    if (known != most.end() && entry.second <= known->second.second) continue;
    if (known != most.end()) most.erase(known);
    most.emplace(entry.first.problem, entry);
  }
  std::set<TimeUnit> chosen;
  for (const auto& [problem, entry] : most) chosen.insert(entry.first);
  return chosen;
}

std::string describe_other_units(const std::map<TimeUnit, std::size_t>& times,
                                 const std::set<TimeUnit>& chosen) {
  std::map<std::string, std::size_t> counts;
  for (const auto& [unit, count] : times)
    if (!chosen.contains(unit)) counts[describe(unit)] += count;
  std::string text;
  for (const auto& [what, count] : counts)
    text += fmt::format("{}{} of {}", text.empty() ? "" : "; ", count, what);
  return text;
}

}  // namespace fusetune::cli
