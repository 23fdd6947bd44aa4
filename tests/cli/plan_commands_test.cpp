// translate, encode and space.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/program.h"

namespace fusetune::cli_test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

TEST(Translate, TheLinesOfTheResearchNotes) {
  const Outcome run =
      fusetune({"translate", "0001101010101010", "0000010101010101", "0011111010010110", "0101010101010101"});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(run.out, "6826 0 2 1 2 3 4\n1365 0 1 1 4\n16022 0 3 2 6 9 10 13 14\n21845 0 0\n");
}

TEST(Translate, AllSpellingsNameTheSameMask) {
  const Outcome run = fusetune({"translate", "65535", "0xffff", "1111111111111111", "0b1111111111111111"});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(run.out, "65535 1 1 1 15\n65535 1 1 1 15\n65535 1 1 1 15\n65535 1 1 1 15\n");
}

TEST(Translate, AnythingElseIsAUsageErrorEach) {
  for (const char* word : {"", " 7", "7x", "+5", "-1", "010", "0b101", "0x1FFFF", "65536", "101010101010101",
                           "10101010101010101", "١٢", "[7]"}) {
    const Outcome run = fusetune({"translate", word});
    EXPECT_EQ(run.exit_code, 2) << "'" << word << "'";
    EXPECT_THAT(run.out, IsEmpty()) << "'" << word << "'";
    EXPECT_THAT(run.err, testing::Not(IsEmpty()));
  }
  EXPECT_THAT(fusetune({"translate", "65536"}).err, HasSubstr("expected a decimal from 0 to 65535"));
}

TEST(Translate, NothingIsPrintedWhenOneOfManyIsBad) {
  const Outcome run = fusetune({"translate", "7", "bad"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.out, IsEmpty());
}

TEST(Translate, FilesMayHaveByteOrderMarkCrLfCommentsAndBlanks) {
  const FileOf file("\xef\xbb\xbf  6826\r\n\r\n# a comment\n\t0101010101010101  # unfused\n1365");
  const Outcome run = fusetune({"translate", "--file", file.path()});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.out, "6826 0 2 1 2 3 4\n21845 0 0\n1365 0 1 1 4\n");
}

TEST(Translate, BadLinesAreNamed) {
  const FileOf file("6826\n\n12 13\n");
  const Outcome run = fusetune({"translate", "--file", file.path()});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("file.txt:3: '12 13'"));
  EXPECT_EQ(fusetune({"translate", "--file", "/no/such/file"}).exit_code, 3);
  const FileOf empty("# no mask\n");
  EXPECT_THAT(fusetune({"translate", "--file", empty.path()}).err, HasSubstr("no mask in it"));
}

TEST(Translate, Json) {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"translate", "--json", "48996"},
                                             {"translate", "48996", "--json"},
                                             {"translate", "48996", "--json", "-"}}) {
    const Outcome run = fusetune(words);
    ASSERT_EQ(run.exit_code, 0) << run.err;
    const auto rows = nlohmann::json::parse(run.out);
    ASSERT_EQ(rows.size(), 1u);
    EXPECT_EQ(rows[0]["mask"], 48996);
    EXPECT_EQ(rows[0]["binary"], "1011111101100100");
    EXPECT_EQ(rows[0]["plan"], "[0][1-6]*[7][8-9][10-11][12][13-14]");
    EXPECT_EQ(rows[0]["fused_positions"], nlohmann::json({"2-7", "9-10", "11-12", "14-15"}));
  }
}

TEST(Translate, JsonToAFileLeavesStandardOutputToPeople) {
  const base::TemporaryDirectory directory;
  const Outcome run = fusetune({"translate", "6826", "--json=rows.json"}, directory.path());
  EXPECT_EQ(run.out, "6826 0 2 1 2 3 4\n");
  EXPECT_EQ(nlohmann::json::parse(base::read_file(directory.path() / "rows.json"))[0]["mask"], 6826);
  EXPECT_EQ(fusetune({"translate", "6826", "--json", "--csv"}).exit_code, 2);
}

TEST(Translate, ExplainDrawsEveryOperatorOnce) {
  const Outcome run = fusetune({"translate", "48996", "--explain"});
  EXPECT_EQ(run.exit_code, 0);
  for (const char* name :
       {" qkv_gemm  ", " softmax  ", " merge_heads  ", " ffn2_bias_residual  ", " layernorm2  "}) {
    const std::size_t at = run.out.find(name);
    ASSERT_NE(at, std::string::npos) << name;
    EXPECT_EQ(run.out.find(name, at + 1), std::string::npos) << name;
  }
  EXPECT_THAT(run.out, HasSubstr("kernel 7"));
  EXPECT_THAT(run.out, HasSubstr("hand-written attention"));
  // ByteTransformer's second kernel keeps everything from qkv's split to context inside.
  EXPECT_THAT(run.out, HasSubstr("inside: q, k, v, scores, masked_scores, probs, context"));
  EXPECT_THAT(run.out, HasSubstr("writes: merged"));
}

TEST(Translate, ExplainSaysWhenTheFlagHasNoEffect) {
  EXPECT_THAT(fusetune({"translate", "0b1010101010101010", "--explain"}).out,
              HasSubstr("pos0 = 1 has no effect"));
}

TEST(Encode, IsTheWayBack) {
  const Outcome run =
      fusetune({"encode", "--segment", "2-7", "9-10", "11-12", "--segment", "14-15", "--hand-written"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.out, "48996 1011111101100100 [0][1-6]*[7][8-9][10-11][12][13-14]\n");
  EXPECT_EQ(fusetune({"encode"}).out,
            "10922 0010101010101010 [0][1][2][3][4][5][6][7][8][9][10][11][12][13][14]\n");
}

TEST(Encode, SaysWhenTheFlagHasNoEffect) {
  const Outcome run = fusetune({"encode", "--segment", "3-6", "--hand-written"});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_THAT(run.err, HasSubstr("--hand-written has no effect"));
  EXPECT_THAT(run.out, HasSubstr("[2-5]"));
}

TEST(Encode, BadSegmentsAreUsageErrors) {
  for (const char* segment :
       {"7-3", "3-3", "0-4", "12-16", "3", "3-", "-3", "a-b", "3-7-9", "+3-7", "3 -7", ""})
    EXPECT_EQ(fusetune({"encode", "--segment", segment}).exit_code, 2) << "'" << segment << "'";
  const Outcome overlap = fusetune({"encode", "--segment", "3-7", "7-9"});
  EXPECT_EQ(overlap.exit_code, 2);
  EXPECT_THAT(overlap.err, HasSubstr("overlaps"));
}

nlohmann::json space_counts(std::vector<std::string> words) {
  words.insert(words.begin(), "space");
  words.emplace_back("--json");
  const Outcome run = fusetune(words);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  return nlohmann::json::parse(run.out).at(0);
}

TEST(Space, Counts) {
  const auto all = space_counts({});
  EXPECT_EQ(all["masks"], 65536);
  EXPECT_EQ(all["segmentations"], 16384);
  EXPECT_EQ(all["plans"], 17408);
  EXPECT_EQ(all["hand_written_plans"], 1024);
  EXPECT_EQ(all["segment_variants"], 147);
}

TEST(Space, RangesAreHalfOpenViews) {
  const auto flagged = space_counts({"--range", "32768:49152"});
  EXPECT_EQ(flagged["masks"], 16384);
  EXPECT_EQ(flagged["segmentations"], 16384);
  EXPECT_EQ(flagged["plans"], 16384);
  const auto alone = space_counts({"--range", "16384:24576"});
  EXPECT_EQ(alone["segmentations"], 8192);
  EXPECT_EQ(space_counts({"--range", "7:8"})["plans"], 1);
  EXPECT_EQ(space_counts({"--range", "0xfff0:"})["masks"], 16);
  for (const char* range : {"7", "8:7", "7:7", "a:b", "0:65537", "-1:4", "1:2:3"})
    EXPECT_EQ(fusetune({"space", "--range", range}).exit_code, 2) << range;
}

TEST(Space, Filters) {
  EXPECT_EQ(space_counts({"--filter", "kernels=1"})["plans"], 2);
  EXPECT_EQ(space_counts({"--filter", "kernels=15"})["plans"], 1);
  EXPECT_EQ(space_counts({"--filter", "handwritten"})["plans"], 1024);
  EXPECT_EQ(space_counts({"--filter", "handwritten", "has:2-6"})["plans"], 256);
  EXPECT_EQ(space_counts({"--filter", "kernels<=4", "--filter", "!handwritten"})["plans"], 1 + 14 + 91 + 364);
  for (const char* filter :
       {"kernels", "kernels<=", "kernels~4", "kernels<=4x", "has:6-2", "has:2-15", "has:", "fast", "!"})
    EXPECT_EQ(fusetune({"space", "--filter", filter}).exit_code, 2) << filter;
}

TEST(Space, ListsEveryPlanOnceAsCsv) {
  const Outcome run = fusetune({"space", "--list", "--csv"});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(std::count(run.out.begin(), run.out.end(), '\n'), 1 + 17408);
  EXPECT_THAT(run.out, testing::StartsWith(
                           "mask,binary,canonical_mask,kernels,plan\n0,0000000000000000,0,1,[0-14]\n"));
  EXPECT_THAT(run.out, HasSubstr("\n48996,1011111101100100,48996,7,[0][1-6]*[7][8-9][10-11][12][13-14]\n"));
}

}  // namespace
}  // namespace fusetune::cli_test
