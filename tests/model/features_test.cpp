#include "model/features.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "synthetic.h"

namespace fusetune::model {
namespace {

float value_of(const FeatureTable& table, std::string_view feature, std::size_t row = 0) {
  const auto all = features(table.schema());
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i].name == feature) return table.row(row)[i];
  ADD_FAILURE() << "no feature " << feature;
  return -1;
}

TEST(Features, EveryOneHasANameOfItsOwnAndADefinition) {
  std::set<std::string> hashes;
  for (const Schema schema : {Schema::plan_bits, Schema::plan, Schema::segment}) {
    std::set<std::string> names;
    for (const FeatureInfo& feature : features(schema)) {
      EXPECT_TRUE(names.insert(feature.name).second) << feature.name << " is there twice";
      EXPECT_FALSE(feature.definition.empty()) << feature.name;
    }
    hashes.insert(schema_hash(schema));
    EXPECT_EQ(parse_schema(name(schema)), schema);
  }
  EXPECT_EQ(hashes.size(), 3u);
  EXPECT_THROW(parse_schema("plans"), base::UsageError);
}

TEST(Features, BitsAreTheCanonicalMasksMostSignificantFirst) {
  FeatureTable table(Schema::plan_bits);
  table.add(plan::FusionPlan::byte_transformer());  // 1011111101100100
  const std::string bits = "1011111101100100";
  for (int i = 0; i < 16; ++i)
    EXPECT_EQ(value_of(table, "bit" + std::to_string(i)), static_cast<float>(bits[i] - '0')) << i;
  EXPECT_EQ(value_of(table, "kernels"), 7);
  EXPECT_EQ(value_of(table, "hand_written"), 1);
  EXPECT_EQ(value_of(table, "longest_kernel"), 6);  // [1-6]
  EXPECT_EQ(value_of(table, "fused_operators"), 6 + 2 + 2 + 2);
  EXPECT_EQ(value_of(table, "border0"), 1);
  EXPECT_EQ(value_of(table, "border1"), 0);
  EXPECT_EQ(value_of(table, "border13"), 0);
  EXPECT_EQ(table.work(0), 1);
}

TEST(Features, MasksOfOnePlanHaveTheSameRow) {
  FeatureTable table(Schema::plan_bits);
  table.add(plan::FusionPlan::from_mask({0b0100010111011101}));
  table.add(plan::FusionPlan::from_mask({0b0011101000100010}));
  EXPECT_THAT(table.row(1), testing::ElementsAreArray(table.row(0)));
}

TEST(Features, NoTwoPlansHaveTheSameRow) {
  FeatureTable table(Schema::plan_bits);
  std::set<std::vector<float>> rows;
  for (const plan::FusionPlan& plan : plan::all_plans()) {
    table.add(plan);
    const auto row = table.row(table.rows() - 1);
    rows.emplace(row.begin(), row.end());
  }
  EXPECT_EQ(rows.size(), plan::all_plans().size());
}

TEST(Features, OfAPlanAreTheSumsOfItsKernels) {
  const ProblemFacts facts(small_problem());
  FeatureTable table(Schema::plan);
  table.add(plan::FusionPlan::unfused(), facts);
  table.add(plan::FusionPlan::all_fused(), facts);
  double written = 0, flops = 0;
  for (const plan::SegmentVariant& variant : plan::FusionPlan::unfused().variants()) {
    written += facts.costs(variant).bytes_written;
    flops += facts.costs(variant).flops;
  }
  EXPECT_FLOAT_EQ(value_of(table, "bytes_written", 0), static_cast<float>(written));
  EXPECT_FLOAT_EQ(value_of(table, "flops", 0), static_cast<float>(flops));
  EXPECT_FLOAT_EQ(value_of(table, "bytes_written", 1), 4.0f * 32 * 32)
      << "only the output: 32 rows of 2 x 16";
  EXPECT_EQ(value_of(table, "flops", 1), value_of(table, "flops", 0)) << "no plan computes less";
  EXPECT_EQ(value_of(table, "barriers", 0), 0);
  EXPECT_GE(value_of(table, "barriers", 1), 1);
  EXPECT_EQ(table.work(0), table.work(1)) << "the problem's, whatever the plan";
  EXPECT_EQ(value_of(table, "tokens"), 32);
}

TEST(Features, MaskDensityIsTheVisibleShare) {
  block::Problem problem = small_problem();
  EXPECT_DOUBLE_EQ(ProblemFacts(problem).mask_density(), 1);
  problem.mask = block::MaskSpec::parse("causal");
  EXPECT_DOUBLE_EQ(ProblemFacts(problem).mask_density(), 33.0 / 64);  // 32 * 33 / 2 of 32 * 32
  problem.batch = 2;
  problem.mask = block::MaskSpec::parse("padding:lengths=32/16");
  EXPECT_DOUBLE_EQ(ProblemFacts(problem).mask_density(), (1 + 0.25) / 2);
}

TEST(Features, ProblemsOfEveryDtypeHaveFacts) {
  block::Problem problem = small_problem();
  problem.dtype = block::Dtype::f16;
  EXPECT_GT(ProblemFacts(problem).costs({{0, 14}, false}).flops, 0);
}

TEST(Features, OfASegmentAreItsOperatorsAndItsSchedule) {
  const ProblemFacts facts(small_problem());
  const lower::CpuTarget target{.threads = 3};
  const plan::SegmentVariant variant{{2, 6}, true};
  lower::Schedule schedule = lower::default_schedule(variant, facts.problem(), target);
  FeatureTable table(Schema::segment);
  table.add(variant, schedule, facts, target);
  schedule.key_tiles = schedule.key_tiles == 2 ? 1 : 2;
  table.add(variant, schedule, facts, target);
  EXPECT_EQ(value_of(table, "has_scores"), 1);
  EXPECT_EQ(value_of(table, "has_merge_heads"), 1);
  EXPECT_EQ(value_of(table, "has_out_gemm"), 0);
  EXPECT_EQ(value_of(table, "hand_written"), 1);
  EXPECT_EQ(value_of(table, "threads"), 3);
  EXPECT_EQ(value_of(table, "vector_lanes"), 4);
  EXPECT_NE(value_of(table, "key_tiles", 0), value_of(table, "key_tiles", 1));
  EXPECT_FLOAT_EQ(value_of(table, "flops"), static_cast<float>(facts.costs(variant).flops));
  EXPECT_GT(table.work(0), 0);
  schedule.tile_rows = 5;
  EXPECT_THROW(table.add(variant, schedule, facts, target), base::UsageError);
  EXPECT_EQ(table.rows(), 2u) << "what was refused left nothing behind";
}

TEST(Features, OfASegmentNameItsDevice) {
  const ProblemFacts facts(small_problem());
  const plan::SegmentVariant variant{{7, 9}, false};
  const Device cpu(lower::CpuTarget{.isa = lower::Isa::avx512, .threads = 6}, 48 << 20);
  const Device gpu(lower::GpuTarget{.multiprocessors = 132}, 50 << 20);
  lower::GpuSchedule schedule = lower::default_schedule(variant, facts.problem(), lower::GpuTarget());
  schedule.hand_off = lower::GpuHandOff::norm;
  FeatureTable table(Schema::segment);
  table.add(variant, lower::default_schedule(variant, facts.problem(), cpu.target), facts, cpu);
  table.add(variant, schedule, facts, gpu);
  const auto expect = [&](const char* feature, double on_cpu, double on_gpu) {
    EXPECT_EQ(value_of(table, feature, 0), static_cast<float>(on_cpu)) << feature;
    EXPECT_EQ(value_of(table, feature, 1), static_cast<float>(on_gpu)) << feature;
  };
  expect("gpu", 0, 1);
  expect("threads", 6, 132);
  expect("vector_lanes", 16, 32);
  expect("last_level_bytes", 48 << 20, 50 << 20);
  expect("warps", 0, schedule.warps);
  expect("tile_depth", 0, schedule.tile_depth);
  expect("stages", 0, schedule.stages);
  expect("split_k", 0, schedule.split_k);
  expect("library", 0, 0);
  EXPECT_EQ(value_of(table, "hand_off", 1), 1.5F);
  EXPECT_EQ(value_of(table, "tile_rows", 1), static_cast<float>(schedule.tile_rows));
  EXPECT_EQ(value_of(table, "k_chunk", 1), 0);
  EXPECT_EQ(value_of(table, "shared_bytes", 0), 0);
  EXPECT_GT(value_of(table, "shared_bytes", 1), 0);
  EXPECT_THROW(table.add(variant, schedule, facts, cpu), base::InternalError);
  EXPECT_EQ(table.rows(), 2u);

  lower::GpuTarget with_library;
  with_library.library = lower::GpuLibrary{.version = "some", .missing = {}};
  table.add({{7, 7}, false}, lower::GpuSchedule::parse("product=library"), facts, {with_library, 0});
  EXPECT_EQ(value_of(table, "library", 2), 1);
  EXPECT_EQ(value_of(table, "shared_bytes", 2), 0);
}

TEST(Features, ARowOfAnotherSchemaIsABug) {
  FeatureTable table(Schema::plan);
  EXPECT_THROW(table.add(plan::FusionPlan::unfused()), base::InternalError);
}

}  // namespace
}  // namespace fusetune::model
