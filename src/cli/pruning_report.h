// What a search says of the kernels that its model pruned.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "cli/searcher.h"
#include "search/pruning_threshold.h"

namespace fusetune::cli {

/// Lines, empty where nothing was pruned.
std::string describe_pruning(const std::optional<search::PruningThreshold>& threshold,
                             const Searcher& searcher);
/// The same for machines; null where nothing was pruned.
nlohmann::json pruning_json(const std::optional<search::PruningThreshold>& threshold,
                            const Searcher& searcher);

}  // namespace fusetune::cli
