#include "block/problem.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include "base/error.h"

namespace fusetune::block {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

constexpr std::int64_t kRoomy = std::int64_t{1} << 50;

/// The text of the UsageError that `action` throws; empty if it throws none.
std::string usage_error(const std::function<void()>& action) {
  try {
    action();
  } catch (const base::UsageError& error) {
    return error.what();
  }
  return "";
}

template <typename Edit>
std::string check_error(Edit edit, std::int64_t memory = kRoomy) {
  Problem problem;
  edit(problem);
  return usage_error([&] { problem.check(memory); });
}

TEST(Problem, Shapes) {
  Problem p;
  p.batch = 2, p.seq = 5, p.heads = 3, p.head_size = 7, p.ffn = 11;
  EXPECT_EQ(p.hidden(), 21);
  EXPECT_THAT(p.shape(Tensor::hidden), ElementsAre(2, 5, 21));
  EXPECT_THAT(p.shape(Tensor::qkv), ElementsAre(2, 5, 63));
  EXPECT_THAT(p.shape(Tensor::v), ElementsAre(2, 3, 5, 7));
  EXPECT_THAT(p.shape(Tensor::context), ElementsAre(2, 3, 5, 7));
  EXPECT_THAT(p.shape(Tensor::probs), ElementsAre(2, 3, 5, 5));
  EXPECT_THAT(p.shape(Tensor::merged), ElementsAre(2, 5, 21));
  EXPECT_THAT(p.shape(Tensor::ffn_act), ElementsAre(2, 5, 11));
  EXPECT_THAT(p.shape(Tensor::output), ElementsAre(2, 5, 21));
  EXPECT_EQ(p.elements(Tensor::masked_scores), 150);
  EXPECT_THAT(p.shape(Weight::w_qkv), Pair(21, 63));
  EXPECT_THAT(p.shape(Weight::w_out), Pair(21, 21));
  EXPECT_THAT(p.shape(Weight::w_ffn1), Pair(21, 11));
  EXPECT_THAT(p.shape(Weight::w_ffn2), Pair(11, 21));
  EXPECT_EQ(p.elements(Parameter::b_qkv), 63);
  EXPECT_EQ(p.elements(Parameter::b_ffn1), 11);
  EXPECT_EQ(p.elements(Parameter::b_ffn2), 21);
}

TEST(Problem, KeyIsTheDocumentedText) {
  EXPECT_EQ(Problem{}.key(),
            "batch=1 seq=128 heads=12 head_size=64 ffn=3072 layers=12 mask=full dtype=f32 eps=1e-05 gelu=erf "
            "data=uniform seed=0");
}

TEST(Problem, KeyRoundTrips) {
  Problem p;
  p.batch = 3, p.seq = 77, p.heads = 5, p.head_size = 33, p.ffn = 100, p.layers = 2;
  p.mask = MaskSpec::parse("sliding:window=64,causal=1");
  p.dtype = Dtype::bf16, p.eps = 1e-12, p.gelu = Gelu::tanh, p.data = DataMode::scaled;
  p.seed = std::numeric_limits<std::uint64_t>::max();
  const Problem back = Problem::parse(p.key());
  EXPECT_EQ(back.key(), p.key());
  EXPECT_EQ(back.eps, 1e-12);
  EXPECT_EQ(back.seed, p.seed);
  EXPECT_EQ(back.mask, p.mask);
  EXPECT_EQ(back.head_size, 33);
}

TEST(Problem, KeyKeepsAMaskPathWithSpacesAndCommas) {
  Problem p;
  p.mask = MaskSpec{"file", {{"path", "a b,c\\d=e.npy"}, {"digest", "00"}}};
  EXPECT_EQ(Problem::parse(p.key()).mask, p.mask);
}

TEST(Problem, MalformedKeysAreNamed) {
  const std::string good = Problem{}.key();
  EXPECT_THAT(usage_error([&] { Problem::parse(good + " colour=1"); }), HasSubstr("colour"));
  EXPECT_THAT(usage_error([&] { Problem::parse(good + " seq=1"); }), HasSubstr("twice"));
  EXPECT_THAT(usage_error([&] { Problem::parse(good.substr(0, good.rfind(' '))); }),
              HasSubstr("seed is missing"));
  for (const char* bad :
       {"seq=12x", "seq=", "seq= 1", "seq=+1", "seq=99999999999999999999", "eps=abc", "dtype=f64"}) {
    std::string text = good;
    const std::string field(bad, std::string_view(bad).find('='));
    const std::size_t at = text.find(" " + field + "=") + 1;
    text.replace(at, text.find(' ', at) - at, bad);
    EXPECT_NE(usage_error([&] { Problem::parse(text); }), "") << text;
  }
}

TEST(Problem, SizesOutsideTheirLimitsNameOptionAndValue) {
  EXPECT_THAT(check_error([](Problem& p) { p.batch = 0; }), AllOf(HasSubstr("--batch"), HasSubstr("0")));
  EXPECT_THAT(check_error([](Problem& p) { p.seq = -5; }), AllOf(HasSubstr("--seq"), HasSubstr("-5")));
  EXPECT_THAT(check_error([](Problem& p) { p.heads = 0; }), HasSubstr("--heads"));
  EXPECT_THAT(check_error([](Problem& p) { p.head_size = 1'000'000; }), HasSubstr("--head-size"));
  EXPECT_THAT(check_error([](Problem& p) { p.ffn = INT64_MAX; }), HasSubstr("--ffn"));
  EXPECT_THAT(check_error([](Problem& p) { p.layers = 0; }), HasSubstr("--layers"));
  EXPECT_EQ(check_error([](Problem&) {}), "");
}

TEST(Problem, EpsMustBePositiveInFloat32) {
  for (const double eps : {0.0, -1e-5, 1e-60, 2.0, double(INFINITY), double(NAN)}) {
    EXPECT_THAT(check_error([eps](Problem& p) { p.eps = eps; }), HasSubstr("--eps")) << eps;
  }
  EXPECT_EQ(check_error([](Problem& p) { p.eps = 1e-12; }), "");
}

TEST(Problem, MemoryIsRefusedWithTheBytesNeeded) {
  Problem p;
  p.seq = 2, p.heads = 1, p.head_size = 4, p.ffn = 8;
  // Elements: 8 of [2,4] (hidden, merged, attn_proj, attn_sum, norm1, ffn_down, ffn_sum, output), qkv [2,12],
  // q k v context [1,2,4], two of [2,8]: 152; weights 48 + 16 + 32 + 32 = 128; three of [1,2,2] = 12.
  const std::int64_t bytes = 4 * (152 + 128 + 12);
  EXPECT_EQ(usage_error([&] { p.check(bytes); }), "");
  EXPECT_THAT(usage_error([&] { p.check(bytes - 1); }), HasSubstr(std::to_string(bytes) + " bytes"));
  p.dtype = Dtype::f16;
  EXPECT_EQ(usage_error([&] { p.check(2 * 152 + 4 * (128 + 12)); }), "");
  EXPECT_NE(usage_error([&] { p.check(2 * 152 + 4 * (128 + 12) - 1); }), "");
}

TEST(Problem, ProductsThatOverflowSixtyFourBitsAreRefused) {
  const auto largest = [](Problem& p) {
    p.batch = 1'048'576, p.seq = 65'536, p.heads = 1'024, p.head_size = 1'024;
  };
  // B*H*S*S = 2^62 elements; the exact number of bytes needs more than 64 bits.
  EXPECT_THAT(check_error(largest, INT64_MAX), HasSubstr("bytes"));
  EXPECT_THAT(check_error(largest, 0), HasSubstr("this machine"));
}

TEST(Words, ParseAndPrint) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16}) EXPECT_EQ(parse_dtype(name(dtype)), dtype);
  for (const Gelu gelu : {Gelu::erf, Gelu::tanh}) EXPECT_EQ(parse_gelu(name(gelu)), gelu);
  for (const DataMode mode : {DataMode::uniform, DataMode::scaled})
    EXPECT_EQ(parse_data_mode(name(mode)), mode);
  EXPECT_THAT(usage_error([] { parse_dtype("f61"); }),
              AllOf(HasSubstr("--dtype"), HasSubstr("f32, f16, bf16")));
  EXPECT_THAT(usage_error([] { parse_gelu("ERF"); }), HasSubstr("erf, tanh"));
  EXPECT_THAT(usage_error([] { parse_data_mode(""); }), HasSubstr("uniform, scaled"));
}

TEST(Presets, HaveTheModelsSizes) {
  const Preset& large = find_preset("bert-large");
  EXPECT_EQ(std::tuple(large.heads, large.head_size, large.ffn, large.layers), std::tuple(16, 64, 4096, 24));
  const Preset& minilm = find_preset("minilm-l6");
  EXPECT_EQ(std::tuple(minilm.heads, minilm.head_size, minilm.ffn, minilm.layers),
            std::tuple(12, 32, 1536, 6));
  EXPECT_EQ(find_preset("bert-base").eps, 1e-12);
  EXPECT_EQ(find_preset("vit-base").eps, 1e-6);
}

TEST(Presets, AreLegalProblemsWithDistinctNames) {
  std::set<std::string_view> names;
  for (const Preset& preset : presets()) {
    EXPECT_TRUE(names.insert(preset.name).second);
    Problem p;
    p.heads = preset.heads, p.head_size = preset.head_size, p.ffn = preset.ffn, p.layers = preset.layers;
    p.eps = preset.eps;
    EXPECT_EQ(usage_error([&] { p.check(kRoomy); }), "") << preset.name;
  }
}

TEST(Presets, UnknownNameSuggestsTheNearest) {
  EXPECT_THAT(usage_error([] { find_preset("bert-bose"); }), HasSubstr("did you mean bert-base?"));
}

}  // namespace
}  // namespace fusetune::block
