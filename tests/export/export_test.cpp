// The texts that bundles are made of.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "base/error.h"
#include "export/bundle.h"
#include "export/config_text.h"
#include "export/manifest.h"
#include "export/mask_text.h"
#include "export/sha256.h"
#include "export/template_text.h"

namespace fusetune::exporting {
namespace {

using testing::HasSubstr;

TEST(Sha256, AgreesWithTheStandardsExamples) {
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Template, ReplacesPlaceholdersAndKeepsOtherAtSigns) {
  const Values values = {{"name", "enc"}, {"spare", "x"}};
  Values unused = values;
  EXPECT_EQ(fill_template("@name@_run(@name@) a@b.c @ @@", values, &unused), "enc_run(enc) a@b.c @ @@");
  EXPECT_THAT(unused, testing::ElementsAre(testing::Key("spare")));
}

TEST(Template, RefusesUnknownPlaceholders) {
  EXPECT_THROW(fill_template("@other@", {{"name", "enc"}}), base::InternalError);
}

TEST(BundleName, IsAnIdentifierThatNobodyElseUses) {
  for (const char* good : {"enc", "Encoder_2", "x", "int"}) EXPECT_NO_THROW(check_name(good)) << good;
  for (const char* bad :
       {"", "2x", "_x", "a-b", "a b", "a/b", "m", "cuda", "pthread", "test", "\xc3\xa9t\xc3\xa9"})
    EXPECT_THROW(check_name(bad), base::UsageError) << bad;
  EXPECT_THROW(check_name(std::string(65, 'a')), base::UsageError);
  block::Problem problem;
  problem.mask = block::MaskSpec::parse("sliding:window=4");
  EXPECT_EQ(default_name(problem), "encoder_sliding_b1_s128_h12x64");
  EXPECT_NO_THROW(check_name(default_name(problem)));
}

/// The words that a bundle makes of mask_data.h again.
std::vector<std::uint64_t> unpacked(const std::string& text) {
  std::vector<std::uint64_t> words;
  const std::regex run(R"(\{(\d+), 0x([0-9a-f]+)\})");
  for (std::sregex_iterator at(text.begin(), text.end(), run), end; at != end; ++at)
    words.insert(words.end(), std::stoul((*at)[1]), std::stoull((*at)[2], nullptr, 16));
  return words;
}

class MaskText : public testing::TestWithParam<const char*> {};

/// The pattern without padding, cut by the lengths, is the whole mask: what a bundle does at run time.
TEST_P(MaskText, PatternAndLengthsAreTheWholeMask) {
  constexpr std::int64_t kBatch = 3, kSeq = 70;
  const block::MaskSpec spec = block::MaskSpec::parse(GetParam());
  const block::Mask whole(spec, kBatch, kSeq), bare(without_padding(spec), kBatch, kSeq);
  EXPECT_FALSE(bare.has_padding());
  const std::vector<std::uint64_t> words = unpacked(mask_data_text(bare));
  ASSERT_EQ(words.size(), static_cast<std::size_t>(bare.entries() * kSeq * 2));
  int different = 0;
  for (std::int64_t b = 0; b < kBatch; ++b)
    for (std::int64_t i = 0; i < kSeq; ++i)
      for (std::int64_t j = 0; j < kSeq; ++j) {
        const std::int64_t row = (bare.entries() == 1 ? 0 : b) * kSeq + i;
        const bool in_pattern = words[static_cast<std::size_t>(row * 2 + j / 64)] >> (j % 64) & 1;
        const bool seen = in_pattern && i < whole.length(b) && j < whole.length(b);
        different += seen != whole.visible(b, i, j);
      }
  EXPECT_EQ(different, 0);
}
INSTANTIATE_TEST_SUITE_P(Patterns, MaskText,
                         testing::Values("full", "causal", "padding:lengths=70/1/33", "padding:avg=40,seed=7",
                                         "sliding:window=3,causal=1,padding_avg=50,seed=3",
                                         "bigbird:global=2,window=3,block=8,seed=5,padding_avg=60",
                                         "bigbird:global=2,window=3,block=8,seed=5",
                                         "dilated:window=4,rate=2,padding_lengths=10/20/70", "strided",
                                         "fixed", "longformer:global=4,window=2", "block_diagonal:block=16"));

TEST(Checksums, AreLinesForSha256sum) {
  EXPECT_EQ(checksums_text({{"a/b", "abc"}}),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  a/b\n");
}

TEST(DataRows, DescribeBothKindsOfData) {
  block::Problem problem;
  EXPECT_THAT(data_rows(problem), HasSubstr("{\"w_qkv\", 768, 2304, Kind::uniform, -0.4, 0.4}"));
  problem.data = block::DataMode::scaled;
  EXPECT_THAT(data_rows(problem), HasSubstr("{\"gamma1\", 1, 768, Kind::constant, 1, 0}"));
  EXPECT_THAT(data_rows(problem), HasSubstr("{\"b_qkv\", 1, 2304, Kind::normal, 0, 0.02}"));
}

}  // namespace
}  // namespace fusetune::exporting
