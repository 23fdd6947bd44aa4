#include "lower/any_schedule.h"

#include "base/error.h"

namespace fusetune::lower {
namespace {

/// The schedules that belong to a target.
template <class Target>
struct KindOf;
template <>
struct KindOf<CpuTarget> {
  using Schedule = lower::Schedule;
};
template <>
struct KindOf<GpuTarget> {
  using Schedule = GpuSchedule;
};

/// `list(refused)` gives the schedules of one kind.
template <class Schedule, class List>
std::vector<AnySchedule> any_of_kind(const List& list, std::vector<Refused<AnySchedule>>* refused) {
  std::vector<Refused<Schedule>> refused_of_kind;
  const std::vector<Schedule> schedules = list(&refused_of_kind);
  if (refused != nullptr)
    for (Refused<Schedule>& one : refused_of_kind) refused->push_back({one.schedule, std::move(one.reason)});
  return {schedules.begin(), schedules.end()};
}

}  // namespace

std::string AnySchedule::to_string() const {
  return std::visit([](const auto& schedule) { return schedule.to_string(); }, value_);
}

AnySchedule parse_schedule(std::string_view text, const Target& target) {
  return std::visit(
      [&]<class Kind>(const Kind&) -> AnySchedule { return KindOf<Kind>::Schedule::parse(text); }, target);
}

AnySchedule default_schedule(const plan::SegmentVariant& variant, const block::Problem& problem,
                             const Target& target) {
  return std::visit([&](const auto& kind) -> AnySchedule { return default_schedule(variant, problem, kind); },
                    target);
}

std::vector<AnySchedule> schedule_space(const plan::SegmentVariant& variant, const block::Problem& problem,
                                        const Target& target, std::vector<Refused<AnySchedule>>* refused) {
  return std::visit(
      [&]<class Kind>(const Kind& kind) {
        using OfKind = typename KindOf<Kind>::Schedule;
        return any_of_kind<OfKind>(
            [&](auto* of_kind) { return schedule_space(variant, problem, kind, of_kind); }, refused);
      },
      target);
}

std::vector<AnySchedule> program_space(const plan::SegmentVariant& variant, const block::Problem& problem,
                                       const Target& target, std::vector<Refused<AnySchedule>>* refused) {
  return std::visit(
      [&]<class Kind>(const Kind& kind) {
        using OfKind = typename KindOf<Kind>::Schedule;
        return any_of_kind<OfKind>(
            [&](auto* of_kind) { return program_space(variant, problem, kind, of_kind); }, refused);
      },
      target);
}

std::string refuse(const AnySchedule& schedule, const plan::SegmentVariant& variant,
                   const block::Problem& problem, const Target& target) {
  if (const auto* cpu = std::get_if<CpuTarget>(&target); cpu != nullptr && schedule.cpu() != nullptr)
    return refuse(*schedule.cpu(), variant, problem, *cpu);
  if (const auto* gpu = std::get_if<GpuTarget>(&target); gpu != nullptr && schedule.gpu() != nullptr)
    return refuse(*schedule.gpu(), variant, problem, *gpu);
  throw base::InternalError("the schedule " + schedule.to_string() + " is of another kind than its target");
}

}  // namespace fusetune::lower
