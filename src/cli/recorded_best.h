// The plan that the newest finished search of a problem chose.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/schedule_option.h"
#include "measure/session.h"
#include "plan/fusion_plan.h"

namespace fusetune::cli {

struct RecordedBest {
  std::int64_t run = 0;
  plan::FusionPlan plan = plan::FusionPlan::unfused();
  ScheduleTable schedules;
  double time_us = 0, low_us = 0, high_us = 0;  // whole plan, 95 % interval
  int pairs = 0;
  std::string cache_mode;
  std::string sources_hash;  // of the kernels that were timed
  // Rows of the database: of the plan, and of its segments timed alone, in order; nullopt: not there.
  std::optional<std::int64_t> plan_row;
  std::vector<std::optional<std::int64_t>> segment_rows;
};

/// Looks for the session's problem and environment in `database`. Throws base::UsageError that says what to
/// run where there is none, and base::EnvironmentError where the file cannot be read.
RecordedBest find_recorded_best(const std::string& database, const measure::Session& session);

}  // namespace fusetune::cli
