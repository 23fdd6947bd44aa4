// docs/generated holds one kernel of each kind as a reviewer reads it: they must be what is generated now.
// FUSETUNE_UPDATE_EXAMPLES=1 writes them anew.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "base/file.h"
#include "codegen/gpu_kernel.h"

namespace fusetune::codegen {
namespace {

struct Example {
  const char* file;
  plan::SegmentVariant variant;
  const char* schedule;  // empty: the default
  block::Dtype dtype = block::Dtype::f16;
  std::int64_t seq = 128;
};

void PrintTo(const Example& example, std::ostream* out) { *out << example.file; }

const Example kExamples[] = {
    {"bias.cu", {{1, 1}, false}, ""},
    {"merge_heads.cu", {{6, 6}, false}, ""},
    {"bias_gelu.cu", {{11, 11}, false}, ""},
    {"gemm.cu", {{0, 1}, false}, ""},
    {"gemm_f32.cu", {{0, 1}, false}, "", block::Dtype::f32},
    {"gemm_split_k.cu", {{12, 13}, false}, "tile=64x64x32 split=4"},
    {"score_rows.cu", {{3, 4}, false}, ""},
    {"attention_whole_rows.cu", {{2, 6}, false}, ""},
    {"attention_spilling_rows.cu", {{2, 6}, false}, "", block::Dtype::f16, 4096},
    {"attention_hand_written.cu", {{1, 6}, true}, ""},
    {"layernorm.cu", {{8, 9}, false}, ""},
    {"row_block_norm.cu", {{7, 9}, false}, "handoff=norm tile=64x128x32 rows=16"},
    {"row_pipeline.cu", {{7, 14}, false}, "handoff=pipeline tile=64x128x32 rows=32"},
    {"whole_block.cu", {{0, 14}, true}, "handoff=norm sync=rows tile=64x128x32"},
};

class GpuExamples : public testing::TestWithParam<Example> {};

TEST_P(GpuExamples, AreWhatIsGenerated) {
  const Example& example = GetParam();
  block::Problem problem;  // bert-base, batch 1
  problem.seq = example.seq;
  problem.dtype = example.dtype;
  const lower::GpuTarget target{227 << 10, 132};
  const lower::GpuSchedule schedule =
      *example.schedule == 0
          ? lower::default_schedule(example.variant, problem, target)
          : lower::canonical(lower::GpuSchedule::parse(example.schedule), example.variant, problem);
  const std::string text =
      readable_source(generate_gpu(example.variant, schedule, problem, target), GpuDialect::cuda);
  const std::filesystem::path path =
      std::filesystem::path(FUSETUNE_SOURCE_DIR) / "docs/generated" / example.file;
  if (std::getenv("FUSETUNE_UPDATE_EXAMPLES") != nullptr) {
    std::filesystem::create_directories(path.parent_path());
    base::write_file_atomic(path, text);
  }
  EXPECT_EQ(base::read_file(path), text) << "FUSETUNE_UPDATE_EXAMPLES=1 with this test writes it anew";
}

INSTANTIATE_TEST_SUITE_P(Docs, GpuExamples, testing::ValuesIn(kExamples), [](const auto& info) {
  return std::filesystem::path(info.param.file).stem().string();
});

}  // namespace
}  // namespace fusetune::codegen
