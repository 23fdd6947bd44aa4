#include "cli/recorded_segments.h"

#include "base/number.h"
#include "base/text.h"
#include "cli/comparable_times.h"

namespace fusetune::cli {

std::vector<search::Recording> recorded_segments(const store::Contents& contents, const std::string& source) {
  std::vector<search::Recording> recordings;
  for (const store::TuningRecord& record : usable_times(contents.segments, source))
    recordings.push_back(
        {record.key.variant, record.schedule, search::Trial{true, record.measurement.time.median_us}});
  return recordings;
}

search::Incumbents best_recorded(const std::vector<search::Recording>& recordings,
                                 const lower::Target& target) {
  search::Incumbents best;
  for (const search::Recording& one : recordings)
    best.tell({one.variant, lower::parse_schedule(one.schedule, target)}, one.trial);
  return best;
}

namespace {

/// 0 where the fields have no such number.
std::int64_t whole_number(const std::map<std::string, std::string>& fields, const std::string& key) {
  const auto field = fields.find(key);
  return field == fields.end() ? 0 : base::parse_int(field->second).value_or(0);
}

/// "l1=32768 l2=524288 l3=33554432" as numbers by name.
std::map<std::string, std::string> cache_fields(const std::map<std::string, std::string>& fields) {
  std::map<std::string, std::string> result;
  const auto caches = fields.find("caches");
  if (caches == fields.end()) return result;
  for (const std::string& word : base::split(caches->second, ' '))
    if (const std::size_t sign = word.find('='); sign != std::string::npos)
      result[word.substr(0, sign)] = word.substr(sign + 1);
  return result;
}

}  // namespace

model::Device device_of(const std::map<std::string, std::string>& fields) {
  const std::map<std::string, std::string> caches = cache_fields(fields);
  if (fields.contains("multiprocessors")) {
    lower::GpuTarget gpu;
    gpu.multiprocessors = static_cast<int>(whole_number(fields, "multiprocessors"));
    if (const std::int64_t shared = whole_number(caches, "shared"); shared > 0) gpu.shared_bytes = shared;
    return {gpu, whole_number(caches, "l2")};
  }
  lower::CpuTarget cpu;
  if (const auto isa = fields.find("isa"); isa != fields.end()) cpu.isa = lower::parse_isa(isa->second);
  if (const std::int64_t threads = whole_number(fields, "threads"); threads > 0)
    cpu.threads = static_cast<int>(threads);
  return {cpu, whole_number(caches, "l3")};
}

}  // namespace fusetune::cli
