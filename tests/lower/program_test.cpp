#include "lower/program.h"

#include <gtest/gtest.h>

#include "lower/targets.h"

namespace fusetune::lower {
namespace {

SegmentProgram lowered(plan::SegmentVariant variant, HandOff hand_off) {
  Schedule schedule = default_schedule(variant, block::Problem{}, avx2());
  schedule.hand_off = hand_off;
  return lower_segment(variant, schedule, block::Problem{}, avx2());
}

TEST(Program, PhasesCoverTheSegmentInOrder) {
  const block::Problem problem;
  for (const auto& variant : plan::all_variants())
    for (const Schedule& schedule : program_space(variant, problem, avx2())) {
      const SegmentProgram program = lower_segment(variant, schedule, problem, avx2());
      int next = variant.segment.first;
      for (const Phase& phase : program.phases) {
        EXPECT_EQ(phase.first, next) << variant.to_string() << " " << schedule.to_string();
        EXPECT_LE(phase.first, phase.last);
        next = phase.last + 1;
      }
      EXPECT_EQ(next, variant.segment.last + 1) << variant.to_string() << " " << schedule.to_string();
    }
}

TEST(Program, TheDefaultLoweringHasOnePhasePerOperator) {
  EXPECT_EQ(lowered({{0, 14}, false}, HandOff::barrier).phases.size(), 15u);
  EXPECT_EQ(lowered({{0, 14}, true}, HandOff::barrier).phases.size(), 11u);  // 2..6 are one
}

TEST(Program, ThePipelineOfTheWholeBlockHasThreePhases) {
  const SegmentProgram program = lowered({{0, 14}, true}, HandOff::pipeline);
  EXPECT_EQ(program.to_string(),
            "columns [qkv_gemm qkv_bias] | heads [scores mask softmax context merge_heads] | rows [out_gemm "
            "out_bias_residual layernorm1 ffn1_gemm ffn1_bias_gelu ffn2_gemm ffn2_bias_residual layernorm2]");
  EXPECT_EQ(program.placement(block::Tensor::q), Placement::workspace);
  EXPECT_EQ(program.placement(block::Tensor::merged), Placement::workspace);
  EXPECT_EQ(program.placement(block::Tensor::norm1), Placement::on_chip);
  EXPECT_EQ(program.placement(block::Tensor::output), Placement::live_out);
  EXPECT_EQ(program.live_in, std::vector{block::Tensor::hidden});
}

TEST(Program, SkipEdgesAreLiveOut) {
  EXPECT_EQ(lowered({{1, 2}, false}, HandOff::pipeline).placement(block::Tensor::v), Placement::live_out);
  EXPECT_EQ(lowered({{7, 10}, false}, HandOff::pipeline).placement(block::Tensor::norm1),
            Placement::live_out);
  EXPECT_EQ(lowered({{7, 13}, false}, HandOff::pipeline).placement(block::Tensor::norm1), Placement::on_chip);
}

TEST(StaticCosts, MatchTheFormulasOfBertBase) {
  const block::Problem problem;  // bert-base, batch 1, seq 128
  const double m = 128, d = 768, f = 3072;
  EXPECT_DOUBLE_EQ(static_costs({0, 0}, problem).flops, 2 * m * d * 3 * d);
  EXPECT_DOUBLE_EQ(static_costs({12, 12}, problem).flops, 2 * m * d * f);
  EXPECT_DOUBLE_EQ(static_costs({7, 7}, problem).bytes_read, 4 * (m * d + d * d));
  EXPECT_DOUBLE_EQ(static_costs({7, 7}, problem).bytes_written, 4 * m * d);
  const StaticCosts all = static_costs({0, 14}, problem);
  double sum = 0;
  for (int op = 0; op < 15; ++op) sum += static_costs({op, op}, problem).flops;
  EXPECT_DOUBLE_EQ(all.flops, sum);
  EXPECT_DOUBLE_EQ(all.bytes_written, 4 * m * d);
}

}  // namespace
}  // namespace fusetune::lower
