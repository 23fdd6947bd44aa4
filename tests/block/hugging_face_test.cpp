#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "base/error.h"
#include "base/file.h"
#include "block/data.h"
#include "block/rounding.h"
#include "block/safetensors.h"

namespace fusetune::block {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Problem tiny() {
  Problem p;
  p.seq = 4, p.heads = 2, p.head_size = 3, p.ffn = 10, p.seed = 5;
  return p;
}

/// The tensors of one checkpoint layer, each element distinct: value = tensor number * 1000 + index.
std::vector<SafetensorsTensor> checkpoint(const std::string& prefix, bool old_norm_names) {
  const std::string weight = old_norm_names ? "gamma" : "weight", bias = old_norm_names ? "beta" : "bias";
  std::vector<SafetensorsTensor> tensors{{"attention.self.query.weight", {6, 6}, {}},
                                         {"attention.self.query.bias", {6}, {}},
                                         {"attention.self.key.weight", {6, 6}, {}},
                                         {"attention.self.key.bias", {6}, {}},
                                         {"attention.self.value.weight", {6, 6}, {}},
                                         {"attention.self.value.bias", {6}, {}},
                                         {"attention.output.dense.weight", {6, 6}, {}},
                                         {"attention.output.dense.bias", {6}, {}},
                                         {"attention.output.LayerNorm." + weight, {6}, {}},
                                         {"attention.output.LayerNorm." + bias, {6}, {}},
                                         {"intermediate.dense.weight", {10, 6}, {}},
                                         {"intermediate.dense.bias", {10}, {}},
                                         {"output.dense.weight", {6, 10}, {}},
                                         {"output.dense.bias", {6}, {}},
                                         {"output.LayerNorm." + weight, {6}, {}},
                                         {"output.LayerNorm." + bias, {6}, {}}};
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    tensors[t].name = prefix + tensors[t].name;
    std::int64_t count = 1;
    for (const std::int64_t size : tensors[t].shape) count *= size;
    for (std::int64_t i = 0; i < count; ++i) tensors[t].values.push_back(static_cast<float>(t * 1000 + i));
  }
  return tensors;
}

class HuggingFace : public testing::Test {
 protected:
  std::string load_error(const std::vector<SafetensorsTensor>& tensors, int layer = 3,
                         const Problem& p = tiny()) {
    write_safetensors(path_, tensors);
    try {
      load_weights(path_, layer, p, data_);
    } catch (const base::UsageError& error) {
      return error.what();
    }
    return "no error";
  }
  base::TemporaryDirectory directory_;
  std::filesystem::path path_ = directory_.path() / "model.safetensors";
  BlockData data_ = generate_data(tiny());
};

TEST_F(HuggingFace, WeightsAreTransposedAndQkvConcatenated) {
  for (const std::string prefix : {"", "bert.", "roberta."}) {
    ASSERT_EQ(load_error(checkpoint(prefix + "encoder.layer.3.", prefix == "bert.")), "no error");
    // w_qkv[i][part * 6 + o] = part's weight[o][i]; query, key and value are tensors 0, 2 and 4.
    for (int part = 0; part < 3; ++part) {
      EXPECT_EQ(data_[Weight::w_qkv][4 * 18 + part * 6 + 1], static_cast<float>(part * 2000 + 1 * 6 + 4));
      EXPECT_EQ(data_[Parameter::b_qkv][part * 6 + 2], static_cast<float>(part * 2000 + 1002));
    }
    EXPECT_EQ(data_[Weight::w_out][2 * 6 + 5], 6000.0f + 5 * 6 + 2);
    EXPECT_EQ(data_[Weight::w_ffn1][5 * 10 + 9], 10000.0f + 9 * 6 + 5);
    EXPECT_EQ(data_[Weight::w_ffn2][9 * 6 + 1], 12000.0f + 1 * 10 + 9);
    EXPECT_EQ(data_[Parameter::gamma1][5], 8005.0f);
    EXPECT_EQ(data_[Parameter::beta1][0], 9000.0f);
    EXPECT_EQ(data_[Parameter::b_ffn1][9], 11009.0f);
    EXPECT_EQ(data_[Parameter::b_ffn2][1], 13001.0f);
    EXPECT_EQ(data_[Parameter::gamma2][1], 14001.0f);
    EXPECT_EQ(data_[Parameter::beta2][2], 15002.0f);
  }
}

TEST_F(HuggingFace, WeightsAreRoundedToTheDtype) {
  Problem p = tiny();
  p.dtype = Dtype::bf16;
  ASSERT_EQ(load_error(checkpoint("encoder.layer.3.", false), 3, p), "no error");
  EXPECT_EQ(data_[Weight::w_out][0], round_to(6000.0f, Dtype::bf16));
  EXPECT_EQ(data_[Parameter::beta1][1], 9001.0f);
}

TEST_F(HuggingFace, FailuresNameTheTensorAndChangeNothing) {
  const BlockData before = data_;
  auto tensors = checkpoint("bert.encoder.layer.3.", false);
  EXPECT_THAT(load_error(tensors, 4), AllOf(HasSubstr("--layer 4"), HasSubstr("encoder.layer.4.")));
  EXPECT_THAT(load_error(tensors, 33), HasSubstr("--layer 33"));
  auto missing = tensors;
  missing.pop_back();
  EXPECT_THAT(load_error(missing), HasSubstr("output.LayerNorm.bias"));
  auto not_finite = tensors;
  not_finite[12].values[7] = NAN;
  EXPECT_THAT(load_error(not_finite), AllOf(HasSubstr("output.dense.weight"), HasSubstr("not finite")));
  Problem other = tiny();
  other.ffn = 12;
  EXPECT_THAT(load_error(tensors, 3, other), AllOf(HasSubstr("(10, 6)"), HasSubstr("(12, 6)")));
  auto twice = tensors;
  for (auto& tensor : checkpoint("other.encoder.layer.3.", false)) twice.push_back(tensor);
  EXPECT_THAT(load_error(twice), HasSubstr("several"));
  EXPECT_EQ(data_.weights, before.weights);
  EXPECT_EQ(data_.parameters, before.parameters);
}

TEST_F(HuggingFace, SavedWeightsLoadUnchanged) {
  const BlockData original = data_;
  save_weights(path_, 0, tiny(), original);
  Problem other_seed = tiny();
  other_seed.seed = 6;
  BlockData loaded = generate_data(other_seed);
  load_weights(path_, 0, tiny(), loaded);
  EXPECT_EQ(loaded.weights, original.weights);
  EXPECT_EQ(loaded.parameters, original.parameters);
  EXPECT_NE(loaded.hidden, original.hidden);
}

class HuggingFaceConfig : public testing::Test {
 protected:
  std::string apply(std::string_view json) {
    base::write_file_atomic(directory_.path() / "config.json", json);
    try {
      apply_hf_config(directory_.path(), problem_);
    } catch (const base::UsageError& error) {
      return error.what();
    }
    return "no error";
  }
  base::TemporaryDirectory directory_;
  Problem problem_ = tiny();
};

TEST_F(HuggingFaceConfig, SetsSizesEpsAndActivation) {
  ASSERT_EQ(
      apply(R"({"hidden_size":384,"num_attention_heads":12,"intermediate_size":1536,"num_hidden_layers":6,
                      "layer_norm_eps":1e-12,"hidden_act":"gelu_new","vocab_size":30522})"),
      "no error");
  EXPECT_EQ(problem_.key(),
            "batch=1 seq=4 heads=12 head_size=32 ffn=1536 layers=6 mask=full dtype=f32 eps=1e-12 gelu=tanh "
            "data=uniform seed=5");
}

TEST_F(HuggingFaceConfig, FailuresNameTheEntryAndChangeNothing) {
  const std::string before = problem_.key();
  EXPECT_THAT(apply("{"), HasSubstr("JSON"));
  EXPECT_THAT(apply(R"({"hidden_size":384})"), HasSubstr("num_attention_heads"));
  EXPECT_THAT(apply(R"({"hidden_size":385,"num_attention_heads":12})"), HasSubstr("multiple"));
  EXPECT_THAT(apply(R"({"hidden_size":-384,"num_attention_heads":12})"), HasSubstr("hidden_size"));
  EXPECT_THAT(
      apply(R"({"hidden_size":384,"num_attention_heads":12,"intermediate_size":1536,"num_hidden_layers":6,
                        "layer_norm_eps":1e-12,"hidden_act":"relu"})"),
      HasSubstr("'relu'"));
  EXPECT_THAT(
      apply(R"({"hidden_size":384,"num_attention_heads":12,"intermediate_size":1536,"num_hidden_layers":6,
                        "hidden_act":"gelu"})"),
      HasSubstr("layer_norm_eps"));
  EXPECT_EQ(problem_.key(), before);
}

}  // namespace
}  // namespace fusetune::block
