// A search from its open database to its last word.
#pragma once

#include <optional>
#include <string>

#include "cli/searcher.h"
#include "measure/session.h"
#include "model/cost_model.h"
#include "search/segment_prior.h"
#include "search/stop.h"

namespace fusetune::cli {

struct SearchRequest {
  std::string strategy;  // one that search::find_strategy() or search::find_plan_strategy() knows
  search::StopConditions stop;
  bool fresh = false;
  int finalists = 8, pairs = 0;  // as of SearchSettings
  double epsilon = 0.02;
  std::optional<model::CostModel> initial_model = {};  // only for a strategy with `needs_model`
  search::Priors priors = {};                          // only for a strategy over segments that takes some
  std::string database;
  std::string command;  // as the user wrote it, for the run's row
  std::string json;     // file for the result, "-": standard output; empty: none
  bool verbose = false, quiet = false;
  /// Parts of the command lines that the report shows, each with a leading space or empty.
  std::string problem_and_device, database_option, search_options;
  std::string problem_and_devices;              // where several devices measure, all of them
  std::optional<std::string> generate_options;  // nullopt: `generate` cannot repeat the plan
};

/// `reference`: AllFusedReference::hash().
SearchSettings search_settings(const SearchRequest& request, const measure::SessionOptions& session_options,
                               const std::string& reference);

/// Searches, keeps everything measured in the database and prints the report. Returns the exit code. Throws
/// Interrupted after it has said how to continue, and what its parts throw.
int find_best_plan(SearchRequest request, measure::Session& session,
                   const measure::SessionOptions& session_options);

}  // namespace fusetune::cli
