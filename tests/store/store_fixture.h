// A store in a directory of its own, and records to put into it.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "base/file.h"
#include "plan/fusion_plan.h"
#include "store/tuning_store.h"

namespace fusetune::store {

inline constexpr const char* kProblem = "batch=1 seq=16 heads=2 head_size=8";

inline EnvironmentRecord environment(const std::string& fingerprint = "env-a") {
  return {fingerprint, {{"isa", "avx2"}, {"threads", "2"}, {"compiler", "gcc \"12\"\xff"}}};
}

inline TuningRecord record_of(int variant, const std::string& source_hash, double us = 12.5) {
  TuningRecord record;
  record.key.problem = kProblem;
  record.key.environment = "env-a";
  record.key.variant = variant;
  record.key.source_hash = source_hash;
  record.key.layouts = "w_qkv=panel16";
  record.key.cache_mode = "model";
  record.schedule = "handoff=barrier tile=6x16 hash=" + source_hash;
  record.repeat_command = "fusetune verify 0";
  record.measurement.outcome = measure::Outcome::ok;
  record.measurement.time = {us, us * 0.02, us * 0.9, 3};
  record.measurement.samples_us = {us * 0.9, us, us + 0.1};
  record.measurement.dropped = 1;
  record.measurement.norm_error = 1e-7;
  record.measurement.worst_error = 2e-7;
  record.measurement.reference_us = 3.5 * us;
  record.measurement.slowdown = 1.25;
  record.measurement.device_uuid = "GPU-1";
  return record;
}

/// The `index`-th of all plans, timed.
inline PlanRecord plan_of(std::size_t index, Sampled sampled = Sampled::guided, double us = 100) {
  PlanRecord record;
  record.problem = kProblem;
  record.environment = "env-a";
  record.mask = plan::all_plans()[index].canonical_mask().value;
  record.sources_hash = "sources" + std::to_string(index);
  record.cache_mode = "model";
  record.schedules = {"tile=6x16", "tile=4x32 \"quoted\""};
  record.sum_us = us * 1.01;
  record.sampled = sampled;
  record.repeat_command = "fusetune bench " + std::to_string(record.mask);
  record.limits = {120, 60};
  record.measurement = record_of(0, "", us).measurement;
  return record;
}

template <typename Record>
Record failed(Record record, measure::Outcome outcome, const std::string& message) {
  record.measurement = {};
  record.measurement.outcome = outcome;
  record.measurement.message = message;
  return record;
}

class StoreTest : public testing::Test {
 protected:
  base::TemporaryDirectory directory_;
  std::filesystem::path file_ = directory_.path() / "tuning.db";

  /// A store with problem and environment registered.
  TuningStore opened(const StoreOptions& options = {}) {
    TuningStore store(file_, options);
    run_ = store.begin_run(kProblem, environment(), "{}");
    return store;
  }
  std::int64_t run_ = 0;
};

}  // namespace fusetune::store
