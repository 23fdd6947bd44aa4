#include "cli/recorded_segments.h"

#include <map>

#include "base/number.h"
#include "cli/comparable_times.h"

namespace fusetune::cli {

std::vector<search::Recording> recorded_segments(const store::Contents& contents, const std::string& source) {
  std::vector<search::Recording> recordings;
  for (const store::TuningRecord& record : usable_times(contents.segments, source))
    recordings.push_back(
        {record.key.variant, record.schedule, search::Trial{true, record.measurement.time.median_us}});
  return recordings;
}

lower::CpuTarget target_of(const store::EnvironmentRecord& environment) {
  const std::map<std::string, std::string>& fields = environment.fields;
  lower::CpuTarget target;
  if (const auto isa = fields.find("isa"); isa != fields.end()) target.isa = lower::parse_isa(isa->second);
  if (const auto threads = fields.find("threads"); threads != fields.end())
    target.threads = static_cast<int>(base::parse_int(threads->second).value_or(1));
  return target;
}

}  // namespace fusetune::cli
