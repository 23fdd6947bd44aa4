#include "report/block_drawing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "report/text_width.h"

namespace fusetune::report {
namespace {

using testing::HasSubstr;

TEST(DrawLine, BordersBetweenKernelsAndStarForHandWrittenAttention) {
  const plan::FusionPlan plan =
      plan::FusionPlan::from_mask(plan::encode(std::vector<plan::Segment>{{0, 1}, {2, 6}, {7, 14}}, true));
  EXPECT_EQ(
      draw_line(plan, 1000, 0),
      "qkv_gemm─qkv_bias │ scores─mask─softmax─context─merge_heads* │ out_gemm─out_bias_residual─layernorm1─"
      "ffn1_gemm─ffn1_bias_gelu─ffn2_gemm─ffn2_bias_residual─layernorm2\n");
  EXPECT_THAT(draw_line(plan::FusionPlan::all_fused(), 1000), testing::Not(HasSubstr("*")));
}

TEST(DrawLine, BreaksAtBordersOnly) {
  const std::string text = draw_line(plan::FusionPlan::unfused(), 60, 4);
  std::istringstream lines(text);
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    EXPECT_LE(text_width(line), 62u) << line;
    EXPECT_TRUE(line.starts_with("    ")) << line;
  }
  EXPECT_GT(count, 3);
}

TEST(DrawBlock, EveryLineOfABoxIsEquallyWide) {
  for (const plan::FusionPlan& plan :
       {plan::FusionPlan::unfused(), plan::FusionPlan::all_fused(), plan::FusionPlan::byte_transformer()}) {
    std::istringstream lines(draw_block(plan));
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with(" ")) {
        EXPECT_EQ(text_width(line), 78u) << line;
      }
    }
  }
}

TEST(DrawBlock, SaysWhatStaysInsideAndWhatIsWritten) {
  const std::string fused = draw_block(plan::FusionPlan::all_fused());
  EXPECT_THAT(
      fused,
      HasSubstr("inside: qkv, q, k, v, scores, masked_scores, probs, context, merged, attn_proj, attn_sum, "
                "norm1, ffn_up, ffn_act, ffn_down, ffn_sum\n"));
  EXPECT_THAT(fused, HasSubstr("writes: output\n"));
  const std::string unfused = draw_block(plan::FusionPlan::unfused());
  EXPECT_THAT(unfused, testing::Not(HasSubstr("inside:")));
  EXPECT_THAT(unfused, HasSubstr("writes: q, k, v\n"));
}

}  // namespace
}  // namespace fusetune::report
