// generate --target cuda|hip and verify --backend simt: a GPU's kernels without a GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/program.h"

namespace fusetune::cli_test {
namespace {

using testing::HasSubstr;
using testing::Not;

Outcome on_small_block(std::vector<std::string> words, const std::filesystem::path& directory = {}) {
  for (const char* word :
       {"--heads", "2", "--head-size", "20", "--seq", "33", "--mask", "causal", "--ffn", "72"})
    words.emplace_back(word);
  return fusetune(words, directory);
}

TEST(GenerateForGpu, PrintsReadableSources) {
  const Outcome run = on_small_block({"generate", "48996", "--target", "cuda", "--dtype", "bf16"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("#include \"cuda/platform_nvidia.h\""));
  EXPECT_THAT(run.out, HasSubstr("using T = bf16;"));
  EXPECT_THAT(run.out, HasSubstr("//            | merge_heads |"));
  EXPECT_EQ(run.out, on_small_block({"generate", "48996", "--target", "cuda", "--dtype", "bf16"}).out);
}

TEST(GenerateForGpu, WritesAFileForEachSegment) {
  const base::TemporaryDirectory directory;
  const Outcome run = on_small_block(
      {"generate", "48996", "--target", "hip", "--standalone", "--out", "sources"}, directory.path());
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("segment_1_6_hand_written.hip"));
  const std::string text = base::read_file(directory.path() / "sources" / "segment_7_7.hip");
  EXPECT_THAT(text, Not(HasSubstr("#include")));
  EXPECT_THAT(text, HasSubstr("#line 1 \"cuda/platform_hip.h\""));
}

TEST(GenerateForGpu, TakesTheGivenSchedule) {
  const auto generate = [](const std::string& target, const std::string& schedule) {
    return on_small_block(
        {"generate", "--variant", "[7-9]", "--target", target, "--schedule-text", schedule});
  };
  for (const char* target : {"cuda", "hip"}) {
    const Outcome run = generate(target, "handoff=norm tile=64x128x16 stages=2");
    ASSERT_EQ(run.exit_code, 0) << run.err;
    EXPECT_THAT(run.out, HasSubstr("// Schedule: handoff=norm sync=grid warps=4 tile=64x128x16 stages=2 "));
    EXPECT_THAT(run.out, HasSubstr("using Row = RowTile<T, 16, 128, 16, 4, 2>;"));

    const Outcome malformed = generate(target, "tile=banana");
    EXPECT_EQ(malformed.exit_code, 2) << malformed.out;
    EXPECT_THAT(malformed.err, HasSubstr("'banana'"));
    const Outcome illegal = generate(target, "tile=64x64x24");
    EXPECT_EQ(illegal.exit_code, 2) << illegal.out;
    EXPECT_THAT(illegal.err, HasSubstr("segment [7-9] with schedule"));
    EXPECT_THAT(illegal.err, HasSubstr("tile depth 24 is not a multiple of 16"));
  }
}

TEST(GenerateForGpu, ReportsWhatNvrtcMakesOfIt) {
  const Outcome run = on_small_block({"generate", "48996", "--target", "cuda", "--arch", "sm_80,sm_90a",
                                      "--dtype", "f16", "--compile", "--json"});
  if (run.exit_code == 3) GTEST_SKIP() << run.err;
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const auto rows = nlohmann::json::parse(run.out);
  ASSERT_EQ(rows.size(), 14u);
  for (const auto& row : rows) {
    EXPECT_EQ(row["outcome"], "ok") << row;
    EXPECT_GT(row["registers"], 8) << row;
    EXPECT_GT(row["cubin_bytes"], 1000) << row;
  }
  EXPECT_THAT(run.err, HasSubstr("sm_90a f16: 7 of 7 kernels compiled"));
}

TEST(GenerateForGpu, RefusesWhatTheTargetDoesNotHave) {
  EXPECT_THAT(on_small_block({"generate", "7", "--target", "cuda", "--isa", "avx2"}).err,
              HasSubstr("--isa is for --target cpu"));
  EXPECT_THAT(on_small_block({"generate", "7", "--arch", "sm_90a"}).err,
              HasSubstr("--arch is for --target cuda"));
  EXPECT_THAT(on_small_block({"generate", "7", "--target", "cuda", "--arch", "sm_70"}).err,
              HasSubstr("sm_80"));
  EXPECT_THAT(on_small_block({"generate", "7", "--target", "hip", "--dtype", "f16"}).err,
              HasSubstr("float32"));
  EXPECT_THAT(on_small_block({"generate", "7", "--target", "cuda", "--arch", "sm_80,sm_90a"}).err,
              HasSubstr("--out DIR or --compile"));
}

TEST(VerifyInEmulator, ChecksEachKernelAndThePlan) {
  const Outcome run = on_small_block({"verify", "48996", "--backend", "simt", "--dtype", "f16", "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.out << run.err;
  const auto rows = nlohmann::json::parse(run.out);
  ASSERT_EQ(rows.size(), 7u + 1u);
  for (const auto& row : rows) EXPECT_EQ(row["outcome"], "ok") << row;
}

TEST(VerifyInEmulator, FastModeRunsTheSameKernels) {
  const Outcome run =
      on_small_block({"verify", "48996", "--backend", "simt", "--emulation", "fast", "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.out << run.err;
  const auto rows = nlohmann::json::parse(run.out);
  ASSERT_EQ(rows.size(), 7u + 1u);
  for (const auto& row : rows) {
    EXPECT_EQ(row["outcome"], "ok") << row;
    EXPECT_LT(row["norm_error"], 1e-4) << row;
  }
}

TEST(VerifyInEmulator, FindsAMissingBarrier) {
  const base::TemporaryDirectory directory;
  const Outcome copied =
      shell("cp -r \"" FUSETUNE_SOURCE_DIR
            "/kernels\" k && sed -i 's/block_sync();  \\/\\/ the "
            "last step/\\/\\/ the last step/' k/cuda/gemm.h && ! diff -q \"" FUSETUNE_SOURCE_DIR
            "/kernels/cuda/gemm.h\" k/cuda/gemm.h",
            directory.path());
  ASSERT_EQ(copied.exit_code, 0) << copied.err;
  // One block takes one tile after the other.
  const Outcome run = on_small_block(
      {"verify", "--variant", "[7]", "--backend", "simt", "--kernel-dir", "k", "--grid-blocks", "1"},
      directory.path());
  EXPECT_EQ(run.exit_code, 1) << run.out;
  EXPECT_THAT(run.out, HasSubstr("ft_segment_7_7_f32"));
  EXPECT_THAT(run.out, HasSubstr("cuda/gemm.h:"));
  EXPECT_THAT(run.out, HasSubstr("called at ft_segment_7_7_f32"));
  EXPECT_THAT(run.out, HasSubstr("the copy_async by block 0 thread "));
  EXPECT_THAT(run.out, HasSubstr("may not have arrived [block 0 thread "));
  EXPECT_THAT(run.out, HasSubstr("repeat: fusetune verify --variant '[7]'"));
}

TEST(VerifyInEmulator, AllSchedulesSayWhichAreRefusedAndWhy) {
  const Outcome run = fusetune({"verify", "--variant", "[5]", "--schedules", "all", "--backend", "simt",
                                "--heads", "1", "--head-size", "20", "--seq", "33", "--ffn", "40"});
  ASSERT_EQ(run.exit_code, 0) << run.out << run.err;
  EXPECT_THAT(run.err, HasSubstr("refused [5] handoff="));
  EXPECT_THAT(run.err, HasSubstr("query rows make"));
  EXPECT_THAT(run.err, Not(HasSubstr(" 0 schedules refused")));
}

TEST(VerifyInEmulator, OptionsOfOtherBackendsAreRefused) {
  EXPECT_THAT(on_small_block({"verify", "7", "--backend", "simt", "--threads", "2"}).err,
              HasSubstr("--threads means nothing to --backend simt"));
  EXPECT_THAT(on_small_block({"verify", "7", "--emulation", "fast"}).err,
              HasSubstr("--emulation goes with --backend simt"));
}

}  // namespace
}  // namespace fusetune::cli_test
