#include "report/chrome_trace.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace fusetune::report {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kProcess = 1;

Json name_of(const char* what, int track, const std::string& name) {
  return {{"ph", "M"}, {"pid", kProcess}, {"tid", track}, {"name", what}, {"args", {{"name", name}}}};
}

/// Clocks tell nanoseconds; more digits are noise.
double to_nanoseconds(double us) { return std::round(us * 1000) / 1000; }

Json event_of(const TraceEvent& event, int track) {
  Json json = {{"ph", "X"},
               {"pid", kProcess},
               {"tid", track},
               {"ts", to_nanoseconds(event.begin_us)},
               {"dur", to_nanoseconds(event.duration_us)},
               {"name", event.name}};
  for (const auto& [key, value] : event.details)
    std::visit([&json, &key = key](const auto& held) { json["args"][key] = held; }, value);
  return json;
}

}  // namespace

std::string chrome_trace(const std::string& process, const std::vector<TraceTrack>& tracks) {
  std::vector<Json> events = {name_of("process_name", 0, process)};
  for (std::size_t i = 0; i < tracks.size(); ++i) {
    const int track = static_cast<int>(i) + 1;
    events.push_back(name_of("thread_name", track, tracks[i].name));
    for (const TraceEvent& event : tracks[i].events) events.push_back(event_of(event, track));
  }
  std::string text = "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [\n";
  for (std::size_t i = 0; i < events.size(); ++i)
    text += events[i].dump() + (i + 1 < events.size() ? ",\n" : "\n");
  return text + "]}\n";
}

}  // namespace fusetune::report
