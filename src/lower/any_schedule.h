// Schedules of every kind of device under one type: what searches, tables and records hand on.
//
// Who generates code or reads single fields asks for the kind it knows: cpu() or gpu().
#pragma once

#include <compare>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lower/gpu_schedule.h"
#include "lower/schedule.h"

namespace fusetune::lower {

class AnySchedule {
 public:
  AnySchedule() = default;
  AnySchedule(const Schedule& schedule) : value_(schedule) {}     // NOLINT(google-explicit-constructor)
  AnySchedule(const GpuSchedule& schedule) : value_(schedule) {}  // NOLINT(google-explicit-constructor)

  /// Null where it is of the other kind.
  const Schedule* cpu() const { return std::get_if<Schedule>(&value_); }
  const GpuSchedule* gpu() const { return std::get_if<GpuSchedule>(&value_); }

  /// As of its kind; parse_schedule() reads it back.
  std::string to_string() const;
  auto operator<=>(const AnySchedule&) const = default;

 private:
  std::variant<Schedule, GpuSchedule> value_;
};

/// What schedules may assume of a device: its kind decides which kind of schedule the functions below give.
using Target = std::variant<CpuTarget, GpuTarget>;

/// Throws base::UsageError for what is no schedule of the target's kind.
AnySchedule parse_schedule(std::string_view text, const Target& target);

/// As the functions of the same names in schedule.h and gpu_schedule.h.
AnySchedule default_schedule(const plan::SegmentVariant& variant, const block::Problem& problem,
                             const Target& target);
std::vector<AnySchedule> schedule_space(const plan::SegmentVariant& variant, const block::Problem& problem,
                                        const Target& target,
                                        std::vector<Refused<AnySchedule>>* refused = nullptr);
std::vector<AnySchedule> program_space(const plan::SegmentVariant& variant, const block::Problem& problem,
                                       const Target& target,
                                       std::vector<Refused<AnySchedule>>* refused = nullptr);
/// Throws base::InternalError for a schedule of another kind than the target's.
std::string refuse(const AnySchedule& schedule, const plan::SegmentVariant& variant,
                   const block::Problem& problem, const Target& target);

}  // namespace fusetune::lower
