// Problem and session options: refused before anything is compiled or run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/program.h"

namespace fusetune::cli_test {
namespace {

using testing::HasSubstr;

Outcome verify(std::vector<std::string> words) {
  words.insert(words.begin(), {"verify", "0"});
  return fusetune(words);
}

TEST(ProblemOptions, SizesThatCannotBe) {
  for (const char* option : {"--batch", "--seq", "--heads", "--head-size", "--ffn", "--layers"})
    for (const char* value : {"0", "-1", "1.5", "1e3", "0x10", "", "99999999999999999999", "abc"})
      EXPECT_EQ(verify({option, value}).exit_code, 2) << option << " " << value;
}

TEST(ProblemOptions, ProductsThatOverflowOrExceedMemorySayHowMuch) {
  const Outcome huge = verify({"--batch", "1000000", "--seq", "8192"});
  EXPECT_EQ(huge.exit_code, 2);
  EXPECT_THAT(huge.err, testing::ContainsRegex("[0-9]+ (bytes|GiB|TiB|PiB|[KMGTPE]i?B)"));
  EXPECT_EQ(verify({"--batch", "9223372036854775807", "--seq", "9223372036854775807"}).exit_code, 2);
  EXPECT_EQ(verify({"--heads", "4611686018427387904", "--head-size", "4611686018427387904"}).exit_code, 2);
}

TEST(ProblemOptions, UnknownWordsNameTheAcceptedOnes) {
  EXPECT_THAT(verify({"--dtype", "f64"}).err, HasSubstr("f32|f16|bf16"));
  EXPECT_THAT(verify({"--gelu", "relu"}).err, HasSubstr("erf|tanh"));
  EXPECT_THAT(verify({"--preset", "bert-bsae"}).err, HasSubstr("bert-base"));
  EXPECT_EQ(verify({"--preset", "bert-bsae"}).exit_code, 2);
  EXPECT_EQ(verify({"--mask", "casual"}).exit_code, 2);
  EXPECT_EQ(verify({"--mask", "sliding:width=3"}).exit_code, 2);
  EXPECT_EQ(verify({"--isa", "sse9"}).exit_code, 2);
  EXPECT_EQ(verify({"--cache", "lukewarm"}).exit_code, 2);
}

TEST(ProblemOptions, MaskAndMaskIdExcludeEachOther) {
  const Outcome run = verify({"--mask", "causal", "--mask-id", "0"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("--mask-id"));
  EXPECT_EQ(verify({"--mask-id", "3"}).exit_code, 2);
}

TEST(ProblemOptions, WhatWouldHaveNoEffectIsRefused) {
  EXPECT_THAT(verify({"--preset", "bert-base", "--hf-model", "."}).err, HasSubstr("--hf-model"));
  EXPECT_THAT(verify({"--layer", "5"}).err, HasSubstr("goes with --weights"));
}

TEST(ProblemOptions, HelpListsMaskPatternsWithTheirParameters) {
  const std::string help = fusetune({"verify", "--help"}).out;
  EXPECT_THAT(help, HasSubstr("sliding:window=32\n      abs(i-j) <= window"));
  EXPECT_THAT(help, HasSubstr("padding_avg=N"));
}

TEST(ProblemOptions, NumbersThatAreNone) {
  for (const char* eps : {"nan", "inf", "-1e-5", "1,5", "1e-5x", "+1"})
    EXPECT_EQ(verify({"--eps", eps}).exit_code, 2) << eps;
  for (const char* seed : {"-1", "18446744073709551616", "1.0"})
    EXPECT_EQ(verify({"--seed", seed}).exit_code, 2) << seed;
  for (const char* timeout : {"0", "-1", "nan"})
    EXPECT_EQ(verify({"--run-timeout", timeout}).exit_code, 2) << timeout;
  EXPECT_THAT(verify({"--run-timeout", "5 parsecs"}).err, HasSubstr("such as 20, 20s"));
  EXPECT_THAT(fusetune({"bench", "0", "--min-time", "1e9"}).err,
              HasSubstr("give it more with --run-timeout"));
  EXPECT_EQ(verify({"--samples", "0"}).exit_code, 2);
  for (const char* pairs : {"0", "19"})  // too few for any interval
    EXPECT_EQ(fusetune({"bench", "0", "--pairs", pairs}).exit_code, 2);
}

TEST(ProblemOptions, FilesThatAreNotThere) {
  const Outcome model = verify({"--hf-model", "/no/such/model"});
  EXPECT_EQ(model.exit_code, 3);
  EXPECT_THAT(model.err, HasSubstr("/no/such/model"));
  const Outcome weights = verify({"--weights", "/no/such.safetensors", "--seq", "8"});
  EXPECT_NE(weights.exit_code, 0);
  EXPECT_THAT(weights.err, HasSubstr("/no/such.safetensors"));
}

}  // namespace
}  // namespace fusetune::cli_test
