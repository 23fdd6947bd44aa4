// What a search says at its end: for people and, with --json, for machines.
#pragma once

#include <optional>
#include <string>

#include "cli/final_comparison.h"
#include "cli/search_budget.h"
#include "cli/searcher.h"
#include "measure/session.h"
#include "model/evaluation.h"
#include "search/pruning_threshold.h"

namespace fusetune::cli {

struct SearchReport {
  std::string problem_line;      // "batch 1  seq 128  …"
  std::string environment_line;  // "cpu avx2, 2 threads, gcc 12.2.0"
  /// A GPU's: what computes matrix products beside our kernels, or why nothing does.
  std::optional<lower::GpuLibrary> library = {};
  std::string problem_key, fingerprint;
  std::string options;         // command line of problem, device and database, with a leading space or empty
  std::string search_options;  // that decide what the search does, the same ones among them
  std::optional<std::string> generate_options;  // those of them that `generate` takes, if it can
  std::string database;
  std::int64_t run = 0;
  std::string stopped;  // why before the strategy's end; empty: it tried everything
  double seconds = 0;
  double epsilon = 0.02;  // a certificate of at most this gain is closed
  bool verbose = false;
  SearchCounts tuned =
      {};  // of kernels whose tiles the searcher's plans are made with, timed before it began
  /// How good the search's model of kernels or of plans (`model_of`) is; nullopt: it has none, or had too
  /// few of them to hold some out.
  std::optional<model::GroupScore> model = {};
  std::string model_of = {};
  std::optional<search::PruningThreshold> threshold = {};  // of the model of kernels
  /// What the search was to take, as predicted when it began, and what it took; nullopt: nothing was.
  std::optional<Budget> predicted = {};
  SearchTime took = {};
  std::vector<measure::DeviceUse> devices = {};  // of the session
};

/// Of all stages together.
SearchCounts all_counts(const SearchReport& report, const Searcher& searcher);

/// The first lines: problem, device, what was tried.
std::string describe_trials(const SearchReport& report, const Searcher& searcher);
/// The whole text for a search that found a plan.
std::string describe_result(const SearchReport& report, const Searcher& searcher, const FinalResult& result);
/// For a search that was interrupted: the best so far, by the sum of its segments, and how to continue.
std::string describe_interrupted(const SearchReport& report, const Searcher& searcher);
/// For a search that has no plan: why.
std::string describe_nothing(const SearchReport& report, const Searcher& searcher, const std::string& why);

/// One JSON object with everything the text says, failures included. `result` may be null.
std::string result_json(const SearchReport& report, const Searcher& searcher, const FinalResult* result,
                        const std::string& state);

}  // namespace fusetune::cli
