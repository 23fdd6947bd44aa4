// The certificate of a search's report: what may be concluded, under which assumption, and from what.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "cli/final_comparison.h"
#include "cli/searcher.h"

namespace fusetune::cli {

/// Lines: the claim, or why there is none.
std::string describe_certificate(const FinalResult& result, const Searcher& searcher, double epsilon);
/// Adds `certificate`, and where that is null `no_certificate`: why.
void add_certificate(nlohmann::json& json, const FinalResult& result, const Searcher& searcher,
                     double epsilon);

}  // namespace fusetune::cli
