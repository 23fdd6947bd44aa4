// What a search says of the priors that it was given.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "search/segment_prior.h"

namespace fusetune::cli {

/// A line for each test, and what was used where none is trusted; empty where nothing was tested.
std::string describe_priors(std::span<const search::PriorTest> tests);
/// {"used": "model"|"records"|"roofline", "needed_spearman", "needed_probes", "tests": [{"kind", "name",
/// "trusted", "probes", "spearman", "roofline_spearman"}]}; null where nothing was tested.
nlohmann::json priors_json(std::span<const search::PriorTest> tests);

}  // namespace fusetune::cli
