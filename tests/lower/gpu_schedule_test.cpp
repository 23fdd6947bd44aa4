// GPU schedules: their text, what they cut a segment into, what is refused and why.
#include "lower/gpu_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iostream>
#include <set>

#include "base/error.h"

namespace fusetune::lower {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

GpuTarget h100() { return {227 << 10, 132}; }

std::string phases(plan::SegmentVariant variant, GpuHandOff hand_off) {
  GpuSchedule schedule;
  schedule.hand_off = hand_off;
  schedule.tile_columns = 128;
  return lower_segment(variant, schedule, block::Problem{}, h100()).to_string();
}

TEST(GpuSchedule, TextAndBack) {
  GpuSchedule schedule;
  schedule.hand_off = GpuHandOff::norm;
  schedule.sync = GpuSync::rows;
  schedule.warps = 8;
  schedule.tile_rows = 128;
  schedule.tile_columns = 256;
  schedule.tile_depth = 64;
  schedule.stages = 4;
  schedule.split_k = 2;
  schedule.query_rows = 128;
  schedule.row_block = 32;
  schedule.ffn_chunk = 512;
  EXPECT_EQ(schedule.to_string(),
            "handoff=norm sync=rows warps=8 tile=128x256x64 stages=4 split=2 query=128 rows=32 ffn=512");
  EXPECT_EQ(GpuSchedule::parse(schedule.to_string()), schedule);
  EXPECT_EQ(GpuSchedule::parse("warps=2").warps, 2);
  for (const char* bad :
       {"warp=2", "warps=0", "warps=-1", "warps", "tile=64x64", "handoff=magic", "sync=block"})
    EXPECT_THROW(GpuSchedule::parse(bad), base::UsageError) << bad;
}

TEST(GpuSchedule, ALibrarysProductHasNoOtherFields) {
  GpuSchedule schedule;
  schedule.product = GpuProduct::library;
  EXPECT_EQ(schedule.to_string(), "product=library");
  EXPECT_EQ(GpuSchedule::parse("product=library"), schedule);
  EXPECT_EQ(GpuSchedule::parse("product=generated"), GpuSchedule{});
  EXPECT_EQ(canonical(GpuSchedule::parse("product=library warps=8"), {{7, 7}, false}, block::Problem{}),
            schedule);
  EXPECT_THROW(GpuSchedule::parse("product=theirs"), base::UsageError);
}

TEST(GpuPhases, ProductsTakeTheirNeighboursIn) {
  EXPECT_EQ(phases({{7, 9}, false}, GpuHandOff::fused),
            "columns [out_gemm out_bias_residual] | rows [layernorm1]");
  EXPECT_EQ(phases({{7, 9}, false}, GpuHandOff::norm), "rows [out_gemm out_bias_residual layernorm1]");
  EXPECT_EQ(phases({{6, 8}, false}, GpuHandOff::fused), "columns [merge_heads out_gemm out_bias_residual]");
  EXPECT_EQ(phases({{11, 13}, false}, GpuHandOff::fused),
            "columns [ffn1_bias_gelu ffn2_gemm ffn2_bias_residual]");
  EXPECT_EQ(
      phases({{7, 14}, false}, GpuHandOff::norm),
      "rows [out_gemm out_bias_residual layernorm1] | columns [ffn1_gemm ffn1_bias_gelu] | rows [ffn2_gemm "
      "ffn2_bias_residual layernorm2]");
}

TEST(GpuPhases, EveryHandOffCoversEverySegmentInOrder) {
  for (const auto& variant : plan::all_variants())
    for (const auto& schedule : program_space(variant, block::Problem{}, h100())) {
      const SegmentProgram program = lower_segment(variant, schedule, block::Problem{}, h100());
      int next = variant.segment.first;
      for (const Phase& phase : program.phases) {
        EXPECT_EQ(phase.first, next) << variant.to_string() << " " << schedule.to_string();
        next = phase.last + 1;
      }
      EXPECT_EQ(next, variant.segment.last + 1) << variant.to_string() << " " << schedule.to_string();
    }
}

TEST(GpuSpace, HasEveryVariantAndNoScheduleTwice) {
  std::size_t most = 0;
  for (const auto& variant : plan::all_variants()) {
    const auto space = schedule_space(variant, block::Problem{}, h100());
    ASSERT_FALSE(space.empty()) << variant.to_string();
    EXPECT_EQ(space.front(), default_schedule(variant, block::Problem{}, h100()));
    most = std::max(most, space.size());
    for (std::size_t i = 0; i < space.size(); ++i) {
      EXPECT_THAT(refuse(space[i], variant, block::Problem{}, h100()), IsEmpty());
      EXPECT_EQ(canonical(space[i], variant, block::Problem{}), space[i]);
      for (std::size_t j = 0; j < i; ++j) EXPECT_NE(space[i], space[j]) << variant.to_string();
    }
  }
  EXPECT_LE(most, 12u);  // searching takes its time for each
  EXPECT_GE(most, 6u);
}

TEST(GpuSpace, IsSmallEnoughToVerify) {
  block::Problem problem;
  problem.batch = 2;
  problem.seq = 65;
  problem.heads = 2;
  problem.head_size = 40;
  problem.ffn = 200;
  problem.dtype = block::Dtype::f16;
  std::size_t all = 0;
  for (const auto& variant : plan::all_variants())
    all += program_space(variant, problem, {99 << 10, 2}).size();
  std::cout << all << " schedules of 147 variants\n";
  EXPECT_LE(all, 1050u);  // tests emulate every one
}

TEST(GpuSpace, RowPipelinesVaryInFfnAndWarps) {
  std::set<int> rows, ffn, warps;
  block::Problem problem;
  problem.dtype = block::Dtype::f16;
  for (const auto& schedule : schedule_space({{7, 14}, false}, problem, h100()))
    if (schedule.hand_off == GpuHandOff::pipeline) {
      rows.insert(schedule.row_block);
      ffn.insert(schedule.ffn_chunk);
      warps.insert(schedule.warps);
    }
  EXPECT_THAT(rows, testing::ElementsAre(16, 32));
  EXPECT_THAT(ffn, testing::ElementsAre(256, 512));
  EXPECT_THAT(warps, testing::ElementsAre(4, 8));
}

TEST(GpuSpace, TheTunedTileIsReusedWhereItFits) {
  GpuTarget tuned = h100();
  tuned.tile = GpuTile{128, 64, 64, 8, 4};
  for (const auto& variant : plan::all_variants()) {
    const GpuSchedule schedule = default_schedule(variant, block::Problem{}, tuned);
    EXPECT_THAT(refuse(schedule, variant, block::Problem{}, tuned), IsEmpty()) << variant.to_string();
    const bool has_product = variant.segment.contains(0) || variant.segment.contains(7) ||
                             variant.segment.contains(10) || variant.segment.contains(12);
    if (!has_product) {
      EXPECT_EQ(schedule, default_schedule(variant, block::Problem{}, h100())) << variant.to_string();
    } else {
      EXPECT_THAT(schedule.to_string(), HasSubstr("warps=8 tile=128x64x64 stages=4")) << variant.to_string();
    }
  }
  // float32 stages of this depth take more shared memory than the smallest devices have.
  const plan::SegmentVariant whole{{0, 14}, true};
  tuned.shared_bytes = 99 << 10;
  EXPECT_EQ(default_schedule(whole, block::Problem{}, tuned),
            default_schedule(whole, block::Problem{}, {99 << 10, 132}));
}

TEST(GpuSpace, SaysWhatItLeavesOutAndWhy) {
  const plan::SegmentVariant rows{{7, 14}, false};
  const GpuTarget small{64 << 10, 104};
  std::vector<Refused<GpuSchedule>> refused;
  const auto space = schedule_space(rows, block::Problem{}, small, &refused);
  EXPECT_EQ(space, schedule_space(rows, block::Problem{}, small));
  ASSERT_FALSE(refused.empty());  // 16 rows of 768 float32 beside their sums
  for (std::size_t i = 0; i < refused.size(); ++i) {
    EXPECT_EQ(refused[i].reason, refuse(refused[i].schedule, rows, block::Problem{}, small));
    EXPECT_THAT(refused[i].reason, HasSubstr("bytes of shared memory per block, the device has 65536"));
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(refused[i].schedule, refused[j].schedule);
  }
}

std::string reason(plan::SegmentVariant variant, std::string_view schedule, GpuTarget target = h100()) {
  return refuse(GpuSchedule::parse(schedule), variant, block::Problem{}, target);
}

TEST(GpuRefusals, SayWhatIsWrong) {
  EXPECT_THAT(reason({{7, 7}, false}, "warps=3"), HasSubstr("expected 1, 2, 4, 8 or 16"));
  EXPECT_THAT(reason({{7, 7}, false}, "tile=64x64x24"), HasSubstr("multiple of 16"));
  EXPECT_THAT(reason({{7, 7}, false}, "tile=16x16x32"), HasSubstr("cannot be divided among 4 warps"));
  EXPECT_THAT(reason({{7, 7}, false}, "tile=256x256x32"), HasSubstr("registers"));
  EXPECT_THAT(reason({{7, 7}, false}, "stages=1"), HasSubstr("outside 2..8"));
  EXPECT_THAT(reason({{7, 7}, false}, "split=200"), HasSubstr("steps"));
  EXPECT_THAT(reason({{7, 7}, false}, "sync=rows"), HasSubstr("several stages"));
  EXPECT_THAT(reason({{2, 5}, true}, "query=32"), HasSubstr("16 query rows"));
  EXPECT_THAT(reason({{2, 5}, false}, "query=48"), HasSubstr("16, 32, 64 or 128"));
  EXPECT_THAT(reason({{7, 14}, false}, "handoff=pipeline rows=24 tile=64x128x32"), HasSubstr("row block"));
  EXPECT_THAT(reason({{7, 14}, false}, "handoff=pipeline rows=64 tile=64x128x32", {99 << 10, 132}),
              HasSubstr("bytes of shared memory per block, the device has 101376"));
}

GpuTarget with_library(const GpuLibrary& library) {
  GpuTarget target = h100();
  target.library = library;
  return target;
}

TEST(GpuLibraries, AreACandidateOfSegmentsThatAreExactlyOneProduct) {
  const GpuTarget target = with_library({.version = "cuBLASLt 13.0.2", .missing = {}});
  std::set<std::string> offered;
  for (const plan::SegmentVariant& variant : plan::all_variants()) {
    auto space = schedule_space(variant, block::Problem{}, target);
    const auto kernels = schedule_space(variant, block::Problem{}, h100());
    if (space.size() == kernels.size()) {
      EXPECT_EQ(space, kernels) << variant.to_string();
      continue;
    }
    EXPECT_EQ(space.back(), GpuSchedule::parse("product=library")) << variant.to_string();
    offered.insert(variant.to_string());
    space.pop_back();
    EXPECT_EQ(space, kernels) << variant.to_string();
  }
  EXPECT_THAT(offered, testing::ElementsAre("[0]", "[10]", "[12]", "[7]"));
  EXPECT_THAT(reason({{7, 8}, false}, "product=library", target), HasSubstr("[0], [7], [10] and [12]"));
  EXPECT_THAT(reason({{0, 1}, false}, "product=library", target), HasSubstr("to q, k and v by heads"));
  EXPECT_THROW(lower_segment({{7, 7}, false}, GpuSchedule::parse("product=library"), {}, target),
               base::InternalError);
}

TEST(GpuLibraries, BiasAndGeluAreACandidateInFloat32UnderTheTanhForm) {
  const GpuTarget target = with_library({.version = "cuBLASLt 13.0.2", .missing = {}});
  const plan::SegmentVariant variant{{10, 11}, false};
  const GpuSchedule library = GpuSchedule::parse("product=library");
  block::Problem problem;
  problem.gelu = block::Gelu::tanh;
  std::vector<Refused<GpuSchedule>> refused;
  EXPECT_EQ(schedule_space(variant, problem, target, &refused).back(), library);
  EXPECT_THAT(refused, IsEmpty());

  const auto reason_for = [&](block::Dtype dtype, block::Gelu gelu) {
    block::Problem other = problem;
    other.dtype = dtype;
    other.gelu = gelu;
    refused.clear();
    for (const GpuSchedule& schedule : schedule_space(variant, other, target, &refused))
      EXPECT_NE(schedule, library);
    EXPECT_EQ(refused.back().schedule, library);
    return refused.back().reason;
  };
  EXPECT_THAT(reason_for(block::Dtype::f32, block::Gelu::erf), HasSubstr("--gelu erf"));
  for (const block::Dtype dtype : {block::Dtype::f16, block::Dtype::bf16})
    EXPECT_THAT(reason_for(dtype, block::Gelu::tanh),
                testing::AllOf(HasSubstr(std::string(block::name(dtype))), HasSubstr("float32")));
}

TEST(GpuLibraries, OnesThatAreNotThereAreRefusedWithTheReason) {
  const GpuTarget target = with_library({.version = {}, .missing = "no such file"});
  std::vector<Refused<GpuSchedule>> refused;
  EXPECT_EQ(schedule_space({{7, 7}, false}, block::Problem{}, target, &refused),
            schedule_space({{7, 7}, false}, block::Problem{}, h100()));
  ASSERT_FALSE(refused.empty());
  EXPECT_EQ(refused.back().schedule, GpuSchedule::parse("product=library"));
  EXPECT_THAT(refused.back().reason, HasSubstr("no such file"));
  EXPECT_THAT(reason({{7, 7}, false}, "product=library"), HasSubstr("run here, on a GPU"));
}

TEST(GpuMemory, RowsOfScoresSpillWhereTheyDoNotFit) {
  block::Problem problem;
  const plan::SegmentVariant attention{{2, 6}, false};
  const Phase phase{PhaseKind::heads, 2, 6};
  EXPECT_TRUE(head_memory(phase, false, GpuSchedule{}, problem, h100()).scores_on_chip);
  problem.seq = 4096;
  EXPECT_FALSE(head_memory(phase, false, GpuSchedule{}, problem, h100()).scores_on_chip);
  EXPECT_THAT(refuse(default_schedule(attention, problem, h100()), attention, problem, h100()), IsEmpty());
}

TEST(GpuTiles, WarpsAreAsSquareAsTheTileAllows) {
  EXPECT_EQ(gemm_warp_rows(64, 64, 4), 2);
  EXPECT_EQ(gemm_warp_rows(16, 64, 4), 1);
  EXPECT_EQ(gemm_warp_rows(128, 128, 8), 2);
  EXPECT_EQ(gemm_warp_rows(16, 16, 4), 0);
}

}  // namespace
}  // namespace fusetune::lower
