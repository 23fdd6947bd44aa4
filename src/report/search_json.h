// What a page of a search has inside: the rows it was made from, as they are.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "store/contents.h"

namespace fusetune::report {

/// Everything in `contents`, samples included, with `run` and its finalists.
nlohmann::ordered_json search_json(const store::Contents& contents, const store::RunRecord& run);

/// "model, protocol 2, samples=12 min_time=0.001": only rows alike in this can be compared.
std::string how_measured(const store::TuningRecord& record);
std::string how_measured(const store::PlanRecord& record);

}  // namespace fusetune::report
