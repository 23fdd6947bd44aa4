// Which recorded times may be compared: those of one environment, made in one way and in one unit.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "base/log.h"
#include "store/records.h"

namespace fusetune::cli {

/// The environment whose fingerprint begins with `wanted`; the only one where nothing is wanted. Throws
/// base::UsageError that lists them; `source` is where they are from and `remedy` how to choose one.
const store::EnvironmentRecord& choose_environment(const std::vector<store::EnvironmentRecord>& environments,
                                                   const std::string& wanted, const std::string& source,
                                                   const std::string& remedy);
/// Fingerprint, device, instruction set, threads and compiler.
std::string describe(const store::EnvironmentRecord& environment);

/// How a time of a problem was made, within one environment and cache mode. Times that differ in any of this
/// have different units, or were taken by different rules.
struct TimeUnit {
  std::string problem, data, settings;
  int protocol = 0;
  double reference_us = 0;  // of the plan timed beside it, by agreement; 0: it was timed by itself

  bool operator<(const TimeUnit& other) const { return fields() < other.fields(); }

 private:
  std::tuple<const std::string&, const std::string&, const std::string&, int, double> fields() const {
    return {problem, data, settings, protocol, reference_us};
  }
};
TimeUnit unit_of(const store::TuningRecord& segment);
TimeUnit unit_of(const store::PlanRecord& plan);

/// One unit a problem, given how many times each has: all of the newest protocol, all with a reference or all
/// without (whichever has more times), and of these the unit with the most times; of equal ones the first.
std::set<TimeUnit> choose_units(const std::map<TimeUnit, std::size_t>& times);

/// The times that are not in a chosen unit, counted by unit: "4 of data generated, samples=12 ..."; empty
/// where there are none.
std::string describe_other_units(const std::map<TimeUnit, std::size_t>& times,
                                 const std::set<TimeUnit>& chosen);

/// Rows whose times may be compared within their problem, and what was left out.
template <typename Record>
struct ComparableTimes {
  std::vector<Record> rows;
  std::size_t failed = 0;       // have no time
  std::size_t other_units = 0;  // have a time in another unit
  std::string units_text = {};  // describe_other_units()

  /// "left out 2 without a time, 4 in other units (4 of ...)"
  std::string left_out() const {
    return "left out " + std::to_string(failed) + " without a time, " + std::to_string(other_units) +
           " in other units" + (units_text.empty() ? "" : " (" + units_text + ")");
  }
};

/// `records` are of one environment and cache mode.
template <typename Record>
ComparableTimes<Record> comparable_times(std::vector<Record> records) {
  ComparableTimes<Record> result;
  result.failed = std::erase_if(
      records, [](const Record& record) { return record.measurement.outcome != measure::Outcome::ok; });
  std::map<TimeUnit, std::size_t> times;
  for (const Record& record : records) ++times[unit_of(record)];
  const std::set<TimeUnit> chosen = choose_units(times);
  result.other_units =
      std::erase_if(records, [&](const Record& record) { return !chosen.contains(unit_of(record)); });
  result.units_text = describe_other_units(times, chosen);
  result.rows = std::move(records);
  return result;
}

/// The rows of comparable_times(); what has a time in other units is said, `source` first.
template <typename Record>
std::vector<Record> usable_times(std::vector<Record> records, const std::string& source) {
  auto comparable = comparable_times(std::move(records));
  if (comparable.other_units > 0) base::note(source + ": " + comparable.left_out());
  return std::move(comparable.rows);
}

}  // namespace fusetune::cli
