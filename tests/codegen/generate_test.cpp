// Generated source as text: deterministic, complete for all 147 variants, honest about what it needs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <set>

#include "base/error.h"
#include "codegen/kernel_source.h"

namespace fusetune::codegen {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

block::Problem small_problem() {
  block::Problem problem;
  problem.seq = 33;
  problem.heads = 3;
  problem.head_size = 40;
  problem.ffn = 480;
  return problem;
}
lower::CpuTarget target_of(lower::Isa isa) {
  lower::CpuTarget target;
  target.isa = isa;
  target.threads = 2;
  return target;
}

TEST(Generate, EveryVariantAndScheduleOfEveryIsaIsGenerated) {
  for (const lower::Isa isa : {lower::Isa::generic, lower::Isa::avx2, lower::Isa::avx512}) {
    std::set<std::string> symbols;
    std::size_t kernels = 0;
    for (const auto& variant : plan::all_variants())
      for (const auto& schedule : lower::program_space(variant, small_problem(), target_of(isa))) {
        const KernelSource kernel = generate_cpu(variant, schedule, small_problem(), target_of(isa));
        EXPECT_THAT(kernel.body, HasSubstr(kernel.symbol));
        EXPECT_FALSE(kernel.writes.empty()) << variant.to_string();
        for (const block::Tensor tensor : kernel.workspace)
          EXPECT_FALSE(block::is_live_out(tensor, variant.segment.first, variant.segment.last));
        symbols.insert(kernel.symbol);
        ++kernels;
      }
    EXPECT_EQ(symbols.size(), kernels)
        << "two schedules of " << lower::name(isa) << " generate the same kernel";
  }
}

TEST(Generate, TheSameInputGivesTheSameTextAndAnotherInputAnotherHash) {
  const plan::SegmentVariant variant{{7, 14}, false};
  const auto target = target_of(lower::Isa::avx2);
  const auto schedule = lower::default_schedule(variant, small_problem(), target);
  const KernelSource a = generate_cpu(variant, schedule, small_problem(), target);
  EXPECT_EQ(a.body, generate_cpu(variant, schedule, small_problem(), target).body);
  block::Problem other = small_problem();
  other.eps = 1e-12;
  const KernelSource b = generate_cpu(variant, schedule, other, target);
  EXPECT_NE(a.hash, b.hash);
  EXPECT_THAT(b.body, HasSubstr("eps = 1e-12f"));
  other = small_problem();
  other.batch = 7;  // a run-time argument
  EXPECT_EQ(a.hash, generate_cpu(variant, schedule, other, target).hash);
}

TEST(Generate, IntermediatesOfOnePipelineNeverReachMemory) {
  const plan::SegmentVariant variant{{7, 14}, false};
  const auto target = target_of(lower::Isa::avx2);
  const KernelSource kernel = generate_cpu(variant, lower::default_schedule(variant, small_problem(), target),
                                           small_problem(), target);
  EXPECT_TRUE(kernel.workspace.empty());
  EXPECT_THAT(kernel.body, Not(HasSubstr("ft_barrier_wait")));
  EXPECT_EQ(kernel.writes, std::vector{block::Tensor::output});
  EXPECT_EQ(kernel.reads, (std::vector{block::Tensor::hidden, block::Tensor::merged}));
}

TEST(Generate, OtherDtypesAreRefusedByName) {
  block::Problem problem = small_problem();
  problem.dtype = block::Dtype::bf16;
  const plan::SegmentVariant variant{{0, 0}, false};
  const auto target = target_of(lower::Isa::avx2);
  EXPECT_THROW(
      {
        try {
          generate_cpu(variant, lower::default_schedule(variant, problem, target), problem, target);
        } catch (const base::UsageError& error) {
          EXPECT_THAT(error.what(), HasSubstr("bf16"));
          throw;
        }
      },
      base::UsageError);
}

TEST(Generate, TranslationUnitHoldsEachBuildingBlockOnce) {
  const auto target = target_of(lower::Isa::avx2);
  std::vector<KernelSource> kernels;
  for (const int op : {0, 4, 9})
    kernels.push_back(generate_cpu({{op, op}, false},
                                   lower::default_schedule({{op, op}, false}, small_problem(), target),
                                   small_problem(), target));
  const std::string unit = translation_unit(kernels);
  for (const std::string& block : kernels[0].includes) {
    const std::string mark = "// ---- " + block + "\n";
    const auto first = unit.find(mark);
    ASSERT_NE(first, std::string::npos) << block;
    EXPECT_EQ(unit.find(mark, first + 1), std::string::npos) << block;
  }
  EXPECT_THAT(unit, Not(HasSubstr("#include")));
  EXPECT_THAT(readable_source(kernels[0]), HasSubstr("#include \"cpu/gemm.h\""));
}

// All 17,408 plans to source: each plan is the concatenation of its segments' sources, of which 147 differ.
TEST(Generate, AllPlansAreLoweredWithinTenSeconds) {
  block::Problem problem;
  const auto target = target_of(lower::Isa::avx2);
  const auto start = std::chrono::steady_clock::now();
  std::vector<KernelSource> sources;
  for (const auto& variant : plan::all_variants())
    sources.push_back(
        generate_cpu(variant, lower::default_schedule(variant, problem, target), problem, target));
  std::size_t characters = 0, plans = 0;
  for (const auto& plan : plan::all_plans()) {
    std::string text;
    for (const auto& variant : plan.variants()) text += sources[plan::variant_index(variant)].body;
    characters += text.size();
    ++plans;
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  RecordProperty("seconds", std::to_string(seconds));
  std::printf("%zu plans, %zu characters of source in %.2f s\n", plans, characters, seconds);
  EXPECT_EQ(plans, 17408u);
  EXPECT_GT(characters, 17408u * 1000);
  EXPECT_LT(seconds, 10.0);
}

TEST(PackWeight, PanelsGroupsAndPadding) {
  // [2,6] in groups of 3 and panels of 2: columns 0 1 | 2 - || 3 4 | 5 -
  const float w[] = {0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15};
  const PanelLayout layout{2, 3};
  ASSERT_EQ(layout.elements(2, 6), 16);
  std::vector<float> packed(16, -1);
  pack_weight(w, 2, 6, layout, packed.data());
  EXPECT_EQ(packed, (std::vector<float>{0, 1, 10, 11, 2, 0, 12, 0, 3, 4, 13, 14, 5, 0, 15, 0}));
  EXPECT_EQ(layout.to_string(), "panel2g3");
  EXPECT_EQ((PanelLayout{4, 0}.elements(2, 6)), 16);
}

}  // namespace
}  // namespace fusetune::codegen
