// What a database has of a problem's plans and segments in one environment: the fastest time of each.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "block/problem.h"
#include "plan/fusion_plan.h"

namespace fusetune::cli {

class MeasuredTimes {
 public:
  /// Of `file` (a RecordedFile), in cache mode model; nothing where there is no such file. Times of one unit
  /// (comparable_times()); what that leaves out is said. Throws base::UsageError where the file has several
  /// environments that begin with `environment`.
  MeasuredTimes(const std::string& file, const std::string& environment, const block::Problem& problem);

  /// Microseconds; nullopt: not measured.
  std::optional<double> plan_us(const plan::FusionPlan& plan) const;
  std::optional<double> segment_us(const plan::SegmentVariant& variant) const;
  bool empty() const { return plans_.empty() && segments_.empty(); }
  /// Where they were measured, for people.
  const std::string& environment() const { return environment_; }

 private:
  std::map<std::uint16_t, double> plans_;
  std::map<int, double> segments_;
  std::string environment_;
};

}  // namespace fusetune::cli
