// Generated GPU source as text, and the sizes that generator and building blocks must agree on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <tuple>

#include "base/error.h"
#include "codegen/any_kernel.h"
#include "codegen/gpu_kernel.h"
#include "codegen/kernel_source.h"

// The building blocks as the host's compiler sees them, for their constants, in the generator's order.
// clang-format off
#include "cuda/abi.h"
#include "cuda/platform_simt.h"
#include "cuda/tile.h"
#include "ops/math.h"
#include "cuda/mma.h"
#include "cuda/sync.h"
#include "cuda/gemm.h"
#include "cuda/stores.h"
#include "cuda/rows.h"
#include "cuda/attention.h"
#include "cuda/row_block.h"
// clang-format on

namespace fusetune::codegen {
namespace {

using block::Dtype;
using lower::GpuSchedule;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

block::Problem small_problem(Dtype dtype) {
  block::Problem problem;
  problem.batch = 2;
  problem.seq = 33;
  problem.heads = 3;
  problem.head_size = 40;
  problem.ffn = 480;
  problem.dtype = dtype;
  return problem;
}
const lower::GpuTarget kTarget{99 << 10, 108};

GpuKernel kernel_of(plan::SegmentVariant variant, std::string_view schedule, Dtype dtype = Dtype::f16) {
  return generate_gpu(variant, lower::canonical(GpuSchedule::parse(schedule), variant, small_problem(dtype)),
                      small_problem(dtype), kTarget);
}

TEST(LibraryProducts, SayWhatIsAskedOfWhichVersion) {
  lower::GpuTarget target = kTarget;
  target.library = lower::GpuLibrary{.version = "cuBLASLt 13.0.2", .missing = {}};
  const GpuSchedule schedule = GpuSchedule::parse("product=library");
  const block::Problem problem = small_problem(Dtype::f16);
  const AnyKernel any = generate({{12, 12}, false}, schedule, problem, target);
  ASSERT_NE(any.library(), nullptr);
  EXPECT_EQ(any.gpu(), nullptr);
  const LibraryProduct& product = *any.library();
  EXPECT_THAT(product.call, HasSubstr("cuBLASLt 13.0.2"));
  EXPECT_THAT(product.call,
              HasSubstr("ffn_down[66, 120] = ffn_act[66, 480] w_ffn2[480, 120], row-major f16"));
  EXPECT_EQ(product.m, 66);
  EXPECT_EQ(product.n, 120);
  EXPECT_EQ(product.k, 480);
  EXPECT_EQ(any.reads(), std::vector{block::Tensor::ffn_act});
  EXPECT_EQ(any.writes(), std::vector{block::Tensor::ffn_down});
  EXPECT_EQ(any.symbol(), "ft_library_12_12_f16_" + any.hash().substr(0, 12));
  EXPECT_EQ(generate({{0, 0}, false}, schedule, problem, target).library()->n, 360);

  // Another version is another kernel, for records and caches.
  target.library->version = "cuBLASLt 13.1.0";
  EXPECT_NE(generate({{12, 12}, false}, schedule, problem, target).hash(), any.hash());
  target.library = lower::GpuLibrary{.version = {}, .missing = "no such file"};
  try {
    generate({{12, 12}, false}, schedule, problem, target);
    FAIL() << "generated";
  } catch (const base::UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("no such file"));
  }
}

TEST(LibraryProducts, SayWhichEpilogueIsAskedFor) {
  lower::GpuTarget target = kTarget;
  target.library = lower::GpuLibrary{.version = "cuBLASLt 13.0.2", .missing = {}};
  const GpuSchedule schedule = GpuSchedule::parse("product=library");
  block::Problem problem = small_problem(Dtype::f32);
  problem.gelu = block::Gelu::tanh;
  const LibraryProduct product = generate_library({{10, 11}, false}, schedule, problem, target);
  EXPECT_THAT(product.call,
              AllOf(HasSubstr("Segment [10-11]"), HasSubstr("in its tanh form"),
                    HasSubstr("ffn_act[66, 480] = GELU(norm1[66, 120] w_ffn1[120, 480] + b_ffn1[480]), "
                              "row-major f32")));
  EXPECT_EQ(product.bias, block::Parameter::b_ffn1);
  EXPECT_EQ(product.weight, block::Weight::w_ffn1);
  EXPECT_EQ(product.reads, std::vector{block::Tensor::norm1});
  EXPECT_EQ(product.writes, std::vector{block::Tensor::ffn_act});
  EXPECT_EQ(std::tuple(product.m, product.n, product.k), std::tuple(66, 480, 120));
  EXPECT_EQ(product.symbol, "ft_library_10_11_f32_" + product.hash.substr(0, 12));
  const LibraryProduct alone = generate_library({{10, 10}, false}, schedule, problem, target);
  EXPECT_EQ(alone.bias, std::nullopt);
  EXPECT_THAT(alone.call, Not(HasSubstr("GELU")));
}

TEST(GenerateGpu, EveryVariantAndScheduleIsGeneratedForEveryDtype) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
    std::set<std::string> symbols;
    std::size_t kernels = 0;
    for (const auto& variant : plan::all_variants())
      for (const auto& schedule : lower::program_space(variant, small_problem(dtype), kTarget)) {
        const GpuKernel kernel = generate_gpu(variant, schedule, small_problem(dtype), kTarget);
        EXPECT_THAT(kernel.body, HasSubstr(kernel.symbol));
        EXPECT_FALSE(kernel.writes.empty()) << variant.to_string();
        for (const block::Tensor tensor : kernel.workspace)
          EXPECT_FALSE(block::is_live_out(tensor, variant.segment.first, variant.segment.last));
        EXPECT_LE(kernel.shared_bytes, kTarget.shared_bytes);
        symbols.insert(kernel.symbol);
        ++kernels;
      }
    EXPECT_EQ(symbols.size(), kernels) << "two schedules generate the same kernel";
  }
}

TEST(GenerateGpu, TheDialectsDifferInThePlatformOnly) {
  for (const auto& variant : plan::all_variants()) {
    const GpuKernel kernel = kernel_of(variant, "");
    const std::string cuda = readable_source(kernel, GpuDialect::cuda);
    std::string hip = readable_source(kernel, GpuDialect::hip);
    EXPECT_THAT(cuda, HasSubstr("#include \"cuda/platform_nvidia.h\"")) << variant.to_string();
    const std::size_t at = hip.find("platform_hip.h");
    ASSERT_NE(at, std::string::npos) << variant.to_string();
    EXPECT_EQ(hip.replace(at, 14, "platform_nvidia.h"), cuda) << variant.to_string();
  }
}

TEST(GenerateGpu, NothingButThePlatformHoldsPtxOrIncludes) {
  const GpuKernel kernel = kernel_of({{0, 14}, true}, "");
  for (const std::string& path : kernel.includes) {
    EXPECT_THAT(std::string(building_block(path)), Not(HasSubstr("asm"))) << path;
    EXPECT_THAT(std::string(building_block(path)), Not(HasSubstr("#include"))) << path;
    EXPECT_THAT(std::string(building_block(path)), Not(HasSubstr("threadIdx"))) << path;
  }
}

TEST(GenerateGpu, TheHeaderDrawsTheStages) {
  const GpuKernel grid = kernel_of({{7, 9}, false}, "handoff=fused");
  EXPECT_THAT(grid.body, HasSubstr("| out_gemm          |\n//            | out_bias_residual |\n"));
  EXPECT_THAT(grid.body, HasSubstr("| grid barrier\n"));
  EXPECT_THAT(kernel_of({{7, 9}, false}, "handoff=fused sync=rows").body,
              HasSubstr("rows, as they are ready"));
}

TEST(GenerateGpu, LaunchesFollowTheBatch) {
  const GpuKernel kernel = kernel_of({{7, 9}, false}, "handoff=fused sync=rows split=2 tile=32x64x32");
  const GpuLaunch one = kernel.launch(1), many = kernel.launch(64);
  EXPECT_TRUE(one.cooperative);
  EXPECT_EQ(one.threads, 128);
  EXPECT_EQ(one.blocks, 9);  // LayerNorm: 33 rows, four a block; the product has 2 x 2 tiles in two parts
  EXPECT_EQ(one.sync_words, 2 + 1 + 4);  // barrier and done; a group of 64 rows; a counter per tile
  EXPECT_EQ(one.scratch_bytes, 4 * (2 * 2 * 2) * 32 * 64);
  EXPECT_EQ(many.sync_words, 2 + 33 + 66 * 2);
  EXPECT_EQ(kernel.launch(64, 100).blocks, 100);
  EXPECT_FALSE(kernel_of({{7, 7}, false}, "").launch(1).cooperative);
}

TEST(GenerateGpu, RefusalsNameTheReason) {
  GpuSchedule schedule;
  schedule.tile_depth = 24;
  try {
    generate_gpu({{7, 7}, false}, schedule, small_problem(Dtype::f16), kTarget);
    FAIL();
  } catch (const base::UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("multiple of 16"));
  }
}

// ----------------------------------------------------------------------------------- sizes of both sides

template <class T>
constexpr Dtype kDtype = sizeof(T) == 4 ? Dtype::f32 : Dtype::f16;

template <class T>
void expect_gemm_bytes() {
  const GpuSchedule s = GpuSchedule::parse("warps=8 tile=128x64x32 stages=4");
  EXPECT_EQ((ft::GemmTile<T, 128, 64, 32, 4, 2, 4>::kBytes), lower::gemm_memory(s, kDtype<T>));
}

template <class T, int S, int W, int Queries, int Warps>
void expect_head_bytes() {
  using Head = ft::HeadTile<T, S, W, Queries, Warps>;
  GpuSchedule s;
  s.warps = Warps;
  s.query_rows = Queries;
  block::Problem problem = small_problem(kDtype<T>);
  problem.seq = S;
  problem.head_size = W;
  const auto memory = lower::head_memory({lower::PhaseKind::heads, 2, 5}, false, s, problem, kTarget);
  EXPECT_EQ(memory.tiles, Head::kTileBytes);
  EXPECT_EQ(memory.scores, Head::kScoreBytes);
  if constexpr (Head::kWarpColumns == 1) {
    EXPECT_EQ(lower::head_memory({lower::PhaseKind::heads, 2, 5}, true, s, problem, kTarget).tiles,
              ft::kOnlineBytes<Head>);
  }
}

template <class T, int D, int F>
void expect_row_bytes() {
  using Row = ft::RowTile<T, 32, 128, 32, 4, 3>;
  GpuSchedule s = GpuSchedule::parse("rows=32 tile=64x128x32 stages=3 ffn=96");
  block::Problem problem = small_problem(kDtype<T>);
  problem.heads = 1;
  problem.head_size = D;
  problem.ffn = F;
  const auto memory = lower::row_memory({lower::PhaseKind::rows, 7, 14}, s, problem);
  const int size = static_cast<int>(sizeof(T));
  EXPECT_EQ(memory.block, 32 * Row::ld(D) * size);
  EXPECT_EQ(memory.sums, 32 * Row::sum_ld(D) * 4);
  EXPECT_EQ(memory.activations, 32 * Row::ld(std::min(96, F)) * size);
  EXPECT_EQ(memory.stages, Row::kStageBytes);
}

TEST(GpuSizes, GeneratorAndBuildingBlocksAgree) {
  expect_gemm_bytes<float>();
  expect_gemm_bytes<ft::f16>();
  expect_head_bytes<float, 33, 40, 64, 4>();
  expect_head_bytes<ft::f16, 65, 33, 32, 4>();
  expect_head_bytes<ft::f16, 130, 128, 16, 4>();
  expect_head_bytes<float, 64, 100, 128, 8>();
  expect_row_bytes<float, 100, 80>();
  expect_row_bytes<ft::f16, 768, 3072>();
}

}  // namespace
}  // namespace fusetune::codegen
