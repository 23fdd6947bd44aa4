#include "lower/schedule.h"

#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "lower/targets.h"

namespace fusetune::lower {
namespace {

TEST(Schedule, TextRoundTripsForTheWholeSpace) {
  const block::Problem problem;
  for (const auto& variant : plan::all_variants())
    for (const Schedule& schedule : program_space(variant, problem, avx2()))
      EXPECT_EQ(Schedule::parse(schedule.to_string()), schedule) << schedule.to_string();
}

TEST(Schedule, MalformedTextIsAUsageError) {
  for (const char* text :
       {"rows", "rows=x", "rows=-1", "handoff=magic", "tile=6", "colour=red", "tile=6x16x2"})
    EXPECT_THROW(Schedule::parse(text), base::UsageError) << text;
}

TEST(Schedule, SpaceStartsWithTheDefaultAndHoldsOnlyDistinctLegalSchedules) {
  const block::Problem problem;
  for (const Isa isa : {Isa::generic, Isa::avx2, Isa::avx512}) {
    CpuTarget target = avx2();
    target.isa = isa;
    for (const auto& variant : plan::all_variants()) {
      const auto space = schedule_space(variant, problem, target);
      ASSERT_FALSE(space.empty()) << variant.to_string();
      EXPECT_EQ(space.front(), default_schedule(variant, problem, target)) << variant.to_string();
      EXPECT_EQ(std::set<Schedule>(space.begin(), space.end()).size(), space.size()) << variant.to_string();
      for (const Schedule& schedule : space) {
        EXPECT_EQ(refuse(schedule, variant, problem, target), "") << schedule.to_string();
        EXPECT_EQ(canonical(schedule, variant, problem), schedule) << schedule.to_string();
      }
      EXPECT_LE(space.size(), 11u) << variant.to_string();
    }
  }
}

TEST(Schedule, TheSmallestCacheStillGivesLegalChunks) {
  block::Problem problem;
  for (const std::int64_t ffn : {5, 16, 200, 3072}) {
    problem.ffn = ffn;
    CpuTarget target = avx2();
    target.l2_bytes = 4096;
    for (const Schedule& schedule : schedule_space({{7, 14}, false}, problem, target))
      EXPECT_EQ(refuse(schedule, {{7, 14}, false}, problem, target), "") << schedule.to_string();
  }
}

TEST(Schedule, SpaceSaysWhatItLeavesOutAndWhy) {
  block::Problem problem;
  std::vector<Refused<Schedule>> refused;
  EXPECT_FALSE(program_space({{7, 14}, false}, problem, avx2(), &refused).empty());
  EXPECT_TRUE(refused.empty()) << refused.front().schedule.to_string();
  problem.dtype = block::Dtype::f16;
  EXPECT_TRUE(program_space({{7, 14}, false}, problem, avx2(), &refused).empty());
  ASSERT_GT(refused.size(), 1u);
  for (const auto& [schedule, reason] : refused)
    EXPECT_NE(reason.find("dtype f16 is not generated for the CPU"), std::string::npos) << reason;
}

TEST(Schedule, RefusalsSayWhy) {
  const block::Problem problem;
  const plan::SegmentVariant variant{{7, 14}, false};
  const auto reason = [&](auto change) {
    Schedule schedule = default_schedule(variant, problem, avx2());
    change(schedule);
    return refuse(schedule, variant, problem, avx2());
  };
  EXPECT_NE(reason([](Schedule& s) { s.tile_rows = 5; }).find("5x16"), std::string::npos);
  EXPECT_NE(reason([](Schedule& s) { s.row_block = 0; }).find("row block 0"), std::string::npos);
  EXPECT_NE(reason([](Schedule& s) { s.ffn_chunk = 7; }).find("FFN chunk 7"), std::string::npos);
  EXPECT_NE(reason([](Schedule& s) { s.query_rows = 48; }).find("48 query rows"), std::string::npos);
  EXPECT_NE(reason([](Schedule& s) { s.bridge = true; }).find("bridge"), std::string::npos);
  EXPECT_NE(reason([](Schedule& s) { s.qkv_per_head = true; }).find("per head"), std::string::npos);
}

TEST(Schedule, TunedTileReachesEveryVariant) {
  CpuTarget target = avx2();
  target.tile_rows = 4;
  target.tile_columns = 24;
  target.k_chunk = 384;
  const Schedule schedule = default_schedule({{7, 14}, false}, block::Problem{}, target);
  EXPECT_EQ(schedule.tile_columns, 24);
  EXPECT_EQ(schedule.k_chunk, 384);
  EXPECT_EQ(schedule.ffn_chunk % 24, 0);
}

}  // namespace
}  // namespace fusetune::lower
