#include "plan/fusion_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"

namespace fusetune::plan {
namespace {

FusionMask mask_of(unsigned value) { return {static_cast<std::uint16_t>(value)}; }

/// The segments of a mask from the definition: maximal runs of equal bits among positions 1..15.
std::vector<Segment> runs(FusionMask mask) {
  const std::string bits = mask.to_binary().substr(1);
  std::vector<Segment> result;
  for (std::size_t begin = 0; begin < bits.size();) {
    const std::size_t end = std::min(bits.find_first_of(bits[begin] == '0' ? "1" : "0", begin), bits.size());
    result.push_back({static_cast<int>(begin), static_cast<int>(end) - 1});
    begin = end;
  }
  return result;
}

bool core_in_one(const std::vector<Segment>& segments) {
  return std::any_of(segments.begin(), segments.end(),
                     [](const Segment& s) { return s.first <= 2 && s.last >= 6; });
}

TEST(FusionPlan, SegmentsAreMaximalRunsForEveryMask) {
  for (unsigned value = 0; value <= 65535; ++value) {
    const FusionMask mask = mask_of(value);
    const FusionPlan plan = FusionPlan::from_mask(mask);
    ASSERT_EQ(plan.segments(), runs(mask)) << value;
    ASSERT_EQ(plan.kernel_count(), static_cast<int>(plan.segments().size()));
    ASSERT_EQ(plan.hand_written(), mask.bit(0) == 1 && core_in_one(plan.segments())) << value;
  }
}

TEST(FusionPlan, ComplementNamesTheSamePlanAndCanonicalMaskIsIdempotent) {
  for (unsigned value = 0; value <= 65535; ++value) {
    const FusionPlan plan = FusionPlan::from_mask(mask_of(value));
    ASSERT_EQ(FusionPlan::from_mask(mask_of(value ^ 0x7fffu)), plan);
    const FusionMask canonical = plan.canonical_mask();
    ASSERT_EQ(canonical.bit(1), 0);
    ASSERT_EQ(FusionPlan::from_mask(canonical), plan);
    ASSERT_EQ(FusionPlan::from_mask(canonical).canonical_mask(), canonical);
    ASSERT_LE(canonical.value, value);
  }
}

TEST(FusionPlan, EncodeUndoesTranslateForEveryMask) {
  for (unsigned value = 0; value <= 65535; ++value) {
    const FusionMask mask = mask_of(value);
    const std::string line = translate(mask);
    // Read the line back: value pos0 count start end ...
    std::vector<int> numbers;
    std::size_t used = 0;
    for (std::size_t at = 0; at < line.size(); at += used + 1)
      numbers.push_back(std::stoi(line.substr(at), &used));
    ASSERT_EQ(numbers[0], static_cast<int>(value));
    ASSERT_EQ(numbers[1], mask.bit(0));
    ASSERT_EQ(numbers.size(), 3 + 2 * static_cast<std::size_t>(numbers[2])) << line;
    std::vector<Segment> segments;
    for (std::size_t i = 3; i < numbers.size(); i += 2)
      segments.push_back({numbers[i] - 1, numbers[i + 1] - 1});
    ASSERT_EQ(encode(segments, mask.bit(0) == 1), FusionPlan::from_mask(mask).canonical_mask()) << line;
  }
}

TEST(Translate, TheLinesOfTheResearchNotes) {
  EXPECT_EQ(translate(parse_mask("0001101010101010")), "6826 0 2 1 2 3 4");
  EXPECT_EQ(translate(parse_mask("0000010101010101")), "1365 0 1 1 4");
  EXPECT_EQ(translate(parse_mask("0011111010010110")), "16022 0 3 2 6 9 10 13 14");
  EXPECT_EQ(translate(parse_mask("0101010101010101")), "21845 0 0");
}

TEST(Translate, KeepsTheMaskAsTyped) {
  EXPECT_EQ(translate({65535}), "65535 1 1 1 15");
  EXPECT_EQ(translate({32767}), "32767 0 1 1 15");
}

TEST(Encode, RefusesBadSegmentsByKind) {
  const auto message = [](std::vector<Segment> segments) -> std::string {
    try {
      encode(segments, false);
    } catch (const base::UsageError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message({{3, 5}, {5, 7}}), testing::HasSubstr("overlaps"));
  EXPECT_THAT(message({{6, 8}, {3, 6}}), testing::HasSubstr("overlaps"));
  EXPECT_THAT(message({{3, 5}, {3, 5}}), testing::HasSubstr("overlaps"));
  EXPECT_THAT(message({{7, 3}}), testing::HasSubstr("reversed"));
  EXPECT_THAT(message({{-1, 3}}), testing::HasSubstr("out of range"));
  EXPECT_THAT(message({{12, 15}}), testing::HasSubstr("out of range"));
  EXPECT_THAT(message({{4, 4}}), testing::HasSubstr("one operator long"));
  EXPECT_THAT(message({{4, 5}, {9, 20}}), testing::HasSubstr("mask positions 10-21"));
}

TEST(Encode, NeighbouringSegmentsStaySeparateInAnyOrder) {
  const std::vector<Segment> segments = {{7, 14}, {2, 6}};
  const FusionMask mask = encode(segments, true);
  EXPECT_EQ(FusionPlan::from_mask(mask).to_string(), "[0][1][2-6]*[7-14]");
}

TEST(Encode, NothingFusedIsTheUnfusedPlan) {
  EXPECT_EQ(encode({}, true), FusionPlan::unfused().canonical_mask());
  EXPECT_EQ(FusionPlan::unfused().canonical_mask(), parse_mask("0010101010101010"));
}

TEST(PlanSpace, Counts) {
  std::set<Segment> segments;
  for (const SegmentVariant& variant : all_variants()) segments.insert(variant.segment);
  EXPECT_EQ(segments.size(), 120u);
  EXPECT_EQ(all_variants().size(), 147u);

  std::set<std::uint16_t> segmentations;
  int with_core = 0;
  int exactly_core = 0;
  for (const FusionPlan& plan : all_plans()) {
    if (!segmentations.insert(plan.borders()).second) continue;
    with_core += core_in_one(plan.segments());
    const auto list = plan.segments();
    exactly_core += std::find(list.begin(), list.end(), Segment{2, 6}) != list.end();
  }
  EXPECT_EQ(segmentations.size(), 16384u);
  EXPECT_EQ(with_core, 1024);
  EXPECT_EQ(exactly_core, 256);
  EXPECT_EQ(all_plans().size(), 17408u);
}

TEST(PlanSpace, AllPlansAreWhatAllMasksNameInCanonicalOrder) {
  std::map<std::uint16_t, FusionPlan> by_mask;
  for (unsigned value = 0; value <= 65535; ++value) {
    const FusionPlan plan = FusionPlan::from_mask(mask_of(value));
    by_mask.emplace(plan.canonical_mask().value, plan);
  }
  ASSERT_EQ(by_mask.size(), all_plans().size());
  auto expected = by_mask.begin();
  for (const FusionPlan& plan : all_plans()) ASSERT_EQ(plan, (expected++)->second);
}

TEST(PlanSpace, VariantsAreOrderedAndFindTheirIndex) {
  EXPECT_TRUE(std::is_sorted(all_variants().begin(), all_variants().end()));
  for (int i = 0; i < kVariantCount; ++i) EXPECT_EQ(variant_index(all_variants()[i]), i);
  EXPECT_THROW(variant_index({{0, 1}, true}), base::InternalError);
  EXPECT_THROW(variant_index({{3, 2}, false}), base::InternalError);
  EXPECT_THROW(variant_index({{14, 15}, false}), base::InternalError);
}

TEST(PlanSpace, RangesOfTheResearchNotes) {
  std::set<std::uint16_t> flagged;
  for (unsigned value = 32768; value < 49152; ++value) {
    ASSERT_EQ(mask_of(value).bit(0), 1);
    flagged.insert(FusionPlan::from_mask(mask_of(value)).borders());
  }
  EXPECT_EQ(flagged.size(), 16384u) << "every segmentation once";

  std::set<std::uint16_t> alone;
  for (unsigned value = 16384; value < 24576; ++value) {
    const FusionMask mask = mask_of(value);
    ASSERT_EQ(mask.to_binary().substr(0, 3), "010");
    const FusionPlan plan = FusionPlan::from_mask(mask);
    ASSERT_EQ(plan.segments().front(), (Segment{0, 0}));
    alone.insert(plan.borders());
  }
  EXPECT_EQ(alone.size(), 8192u) << "each segmentation that keeps operator 0 alone, once";
}

TEST(FusionPlan, ReferencePlans) {
  EXPECT_EQ(FusionPlan::unfused().kernel_count(), 15);
  EXPECT_EQ(FusionPlan::all_fused().to_string(), "[0-14]");
  EXPECT_EQ(FusionPlan::byte_transformer().canonical_mask().value, 48996);
  EXPECT_EQ(FusionPlan::byte_transformer().to_string(), "[0][1-6]*[7][8-9][10-11][12][13-14]");
}

TEST(FusionPlan, TheFlagIsDroppedWhereItHasNoEffect) {
  EXPECT_EQ(FusionPlan(0x3fff, true), FusionPlan::unfused());
  EXPECT_TRUE(FusionPlan(0, true).hand_written());
  EXPECT_FALSE(FusionPlan(1u << 4, true).hand_written()) << "a border inside the core";
  EXPECT_TRUE(FusionPlan(1u << 1 | 1u << 6, true).hand_written()) << "borders on both sides of the core";
  EXPECT_THROW(FusionPlan(1u << 14, false), base::InternalError);
}

}  // namespace
}  // namespace fusetune::plan
