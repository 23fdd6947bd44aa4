// Recorded kernels of one problem, for strategies to be replayed on.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "model/features.h"
#include "search/replay.h"
#include "store/contents.h"

namespace fusetune::cli {

/// The kernels in `contents` (of one problem, environment and cache mode) whose times may be compared; what
/// has a time in other units is said, `source` first.
std::vector<search::Recording> recorded_segments(const store::Contents& contents, const std::string& source);

/// The fastest recorded kernel of each variant. Schedules are of the target's kind.
search::Incumbents best_recorded(const std::vector<search::Recording>& recordings,
                                 const lower::Target& target);

/// The CPU or GPU that an environment's fields describe.
model::Device device_of(const std::map<std::string, std::string>& fields);

}  // namespace fusetune::cli
