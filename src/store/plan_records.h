// The whole plans that a database has, across problems and environments: what a cost model learns from.
#pragma once

#include <filesystem>
#include <vector>

#include "store/tuning_store.h"

namespace fusetune::store {

struct PlanRecords {
  std::vector<EnvironmentRecord> environments;  // those with a plan, in the order they were first seen
  std::vector<PlanRecord> plans;                // every outcome, oldest first
};

/// Throws base::EnvironmentError where the file is missing, foreign or damaged.
PlanRecords read_plan_records(const std::filesystem::path& path);

}  // namespace fusetune::store
