// Schedules of both kinds of device under one type.
#include "lower/any_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/error.h"

namespace fusetune::lower {
namespace {

constexpr plan::SegmentVariant kTail{{7, 14}, false};

template <class Of>
const Of* as(const AnySchedule& schedule);
template <>
const Schedule* as<Schedule>(const AnySchedule& schedule) {
  return schedule.cpu();
}
template <>
const GpuSchedule* as<GpuSchedule>(const AnySchedule& schedule) {
  return schedule.gpu();
}

/// The functions for any target give what those for its kind give, in the same order.
template <class Of, class KindOfTarget>
void expect_same(const KindOfTarget& kind) {
  const block::Problem problem;
  const Target target = kind;
  EXPECT_EQ(*as<Of>(default_schedule(kTail, problem, target)), default_schedule(kTail, problem, kind));
  for (const bool programs : {false, true}) {
    std::vector<Refused<Of>> refused;
    std::vector<Refused<AnySchedule>> any_refused;
    const std::vector<Of> of_kind = programs ? program_space(kTail, problem, kind, &refused)
                                             : schedule_space(kTail, problem, kind, &refused);
    const std::vector<AnySchedule> any = programs ? program_space(kTail, problem, target, &any_refused)
                                                  : schedule_space(kTail, problem, target, &any_refused);
    ASSERT_EQ(any.size(), of_kind.size());
    for (std::size_t i = 0; i < any.size(); ++i) {
      EXPECT_EQ(*as<Of>(any[i]), of_kind[i]);
      EXPECT_EQ(any[i].to_string(), of_kind[i].to_string());
      EXPECT_EQ(parse_schedule(any[i].to_string(), target), any[i]);
      EXPECT_EQ(refuse(any[i], kTail, problem, target), "");
    }
    ASSERT_EQ(any_refused.size(), refused.size());
    for (std::size_t i = 0; i < refused.size(); ++i) {
      EXPECT_EQ(any_refused[i].schedule.to_string(), refused[i].schedule.to_string());
      EXPECT_EQ(any_refused[i].reason, refused[i].reason);
    }
  }
}

TEST(AnySchedules, OfACpuAreTheCpus) { expect_same<Schedule>(CpuTarget{.isa = Isa::avx2, .threads = 2}); }

TEST(AnySchedules, OfAGpuAreTheGpus) {
  expect_same<GpuSchedule>(GpuTarget{.shared_bytes = 64 << 10, .multiprocessors = 20});
}

TEST(AnySchedules, AreOrderedAndNeverEqualAcrossKinds) {
  const AnySchedule cpu = Schedule{}, gpu = GpuSchedule{};
  EXPECT_NE(cpu, gpu);
  EXPECT_EQ(std::set({gpu, cpu, gpu, cpu}).size(), 2U);
  EXPECT_EQ(cpu.gpu(), nullptr);
  EXPECT_EQ(gpu.cpu(), nullptr);
}

TEST(AnySchedules, OfAnotherKindThanTheTargetsAreABug) {
  EXPECT_THROW(refuse(Schedule{}, kTail, {}, GpuTarget{}), base::InternalError);
  EXPECT_THROW(refuse(GpuSchedule{}, kTail, {}, CpuTarget{}), base::InternalError);
  EXPECT_THROW(parse_schedule("warps=4", CpuTarget{}), base::UsageError);
  EXPECT_THROW(parse_schedule("k=768", GpuTarget{}), base::UsageError);
}

}  // namespace
}  // namespace fusetune::lower
