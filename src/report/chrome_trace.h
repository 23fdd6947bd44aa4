// A trace in Chrome's JSON format, which Perfetto (ui.perfetto.dev) and chrome://tracing open.
//
// The format is that of Google's "Trace Event Format" document: complete events ("ph": "X") on the threads of
// one process, here called tracks, and their names as metadata events ("ph": "M").
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace fusetune::report {

/// Something that began and lasted, microseconds.
struct TraceEvent {
  std::string name;
  double begin_us = 0;
  double duration_us = 0;
  /// Shown when the event is selected.
  std::vector<std::pair<std::string, std::variant<std::string, std::int64_t, double>>> details;
};

/// Events below one heading; they may contain each other, and must not overlap otherwise.
struct TraceTrack {
  std::string name;
  std::vector<TraceEvent> events;
};

/// The file's text: one event a line, tracks in order. `process`: the heading above them.
std::string chrome_trace(const std::string& process, const std::vector<TraceTrack>& tracks);

}  // namespace fusetune::report
