// search --replay: recorded measurements in place of a device.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "block/problem.h"
#include "search/segment_prior.h"
#include "search/stop.h"
#include "store/records.h"

namespace fusetune::cli {

struct ReplayRequest {
  std::string file;      // a RecordedFile
  std::string strategy;  // over segments or over plans
  block::Problem problem;
  std::string cache_mode;
  search::StopConditions stop;
  /// Of a strategy over segments that takes some, given what was replayed measured on; empty: none.
  std::function<search::Priors(const store::EnvironmentRecord& here)> priors = {};
};

/// What a strategy found, and what it missed.
struct ReplayedSearch {
  std::int64_t recorded = 0;  // candidates that have a time
  std::string environment;    // where they were recorded, for people
  std::int64_t trials = 0;
  std::string stopped;     // by which condition; empty: the strategy was done
  std::uint16_t mask = 0;  // of the best plan
  double best_us = 0;      // its time, or the sum of its segments'
  double recorded_best_us = 0;
  /// Over segments: the least sum of all plans there are, each added up; 0: over whole plans.
  double brute_force_us = 0;
  std::vector<search::PriorTest> prior_tests = {};
  double regret() const { return best_us / recorded_best_us - 1; }
};

/// Runs the strategy on what `file` has of the problem, in one environment and one unit (comparable_times());
/// what is left out is said on standard error. Throws base::UsageError where that is nothing, or of several
/// environments, or where a strategy over plans is to be stopped by anything but trials.
ReplayedSearch replay_recorded(const ReplayRequest& request);

/// Prints the result, as JSON where `json` is "-", and writes that to `json` where it is a file.
void report_replay(const ReplayedSearch& found, const ReplayRequest& request, const std::string& json);

}  // namespace fusetune::cli
