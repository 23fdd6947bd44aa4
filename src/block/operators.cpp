#include "block/operators.h"

#include <algorithm>

namespace fusetune::block {
namespace {

using enum OperatorKind;

/// Static storage for the spans of one table row: `constant_list<Tensor::q, Tensor::k>`.
template <auto... values>
constexpr std::array constant_list{values...};

// One row per operator: name and formula, then what it reads, writes and multiplies or adds.
// clang-format off
constexpr std::array<OperatorInfo, kOperatorCount> kOperators{{
    {Operator::qkv_gemm, "qkv_gemm", "hidden @ w_qkv", gemm,
     constant_list<Tensor::hidden>, constant_list<Tensor::qkv>, constant_list<Weight::w_qkv>, {}},
    {Operator::qkv_bias, "qkv_bias", "qkv + b_qkv, split into q, k, v by heads", elementwise,
     constant_list<Tensor::qkv>, constant_list<Tensor::q, Tensor::k, Tensor::v>, {},
     constant_list<Parameter::b_qkv>},
    {Operator::scores, "scores", "q @ k^T / sqrt(W)", batched_gemm,
     constant_list<Tensor::q, Tensor::k>, constant_list<Tensor::scores>, {}, {}},
    {Operator::mask, "mask", "masked keys become -inf", elementwise,
     constant_list<Tensor::scores>, constant_list<Tensor::masked_scores>, {}, {}},
    {Operator::softmax, "softmax", "softmax over keys", row_reduce,
     constant_list<Tensor::masked_scores>, constant_list<Tensor::probs>, {}, {}},
    {Operator::context, "context", "probs @ v", batched_gemm,
     constant_list<Tensor::probs, Tensor::v>, constant_list<Tensor::context>, {}, {}},
    {Operator::merge_heads, "merge_heads", "[B,H,S,W] -> [B,S,D]", elementwise,
     constant_list<Tensor::context>, constant_list<Tensor::merged>, {}, {}},
    {Operator::out_gemm, "out_gemm", "merged @ w_out", gemm,
     constant_list<Tensor::merged>, constant_list<Tensor::attn_proj>, constant_list<Weight::w_out>, {}},
    {Operator::out_bias_residual, "out_bias_residual", "attn_proj + b_out + hidden", elementwise,
     constant_list<Tensor::attn_proj, Tensor::hidden>, constant_list<Tensor::attn_sum>, {},
     constant_list<Parameter::b_out>},
    {Operator::layernorm1, "layernorm1", "LayerNorm(attn_sum) * gamma1 + beta1", row_reduce,
     constant_list<Tensor::attn_sum>, constant_list<Tensor::norm1>, {},
     constant_list<Parameter::gamma1, Parameter::beta1>},
    {Operator::ffn1_gemm, "ffn1_gemm", "norm1 @ w_ffn1", gemm,
     constant_list<Tensor::norm1>, constant_list<Tensor::ffn_up>, constant_list<Weight::w_ffn1>, {}},
    {Operator::ffn1_bias_gelu, "ffn1_bias_gelu", "GELU(ffn_up + b_ffn1)", elementwise,
     constant_list<Tensor::ffn_up>, constant_list<Tensor::ffn_act>, {}, constant_list<Parameter::b_ffn1>},
    {Operator::ffn2_gemm, "ffn2_gemm", "ffn_act @ w_ffn2", gemm,
     constant_list<Tensor::ffn_act>, constant_list<Tensor::ffn_down>, constant_list<Weight::w_ffn2>, {}},
    {Operator::ffn2_bias_residual, "ffn2_bias_residual", "ffn_down + b_ffn2 + norm1", elementwise,
     constant_list<Tensor::ffn_down, Tensor::norm1>, constant_list<Tensor::ffn_sum>, {},
     constant_list<Parameter::b_ffn2>},
    {Operator::layernorm2, "layernorm2", "LayerNorm(ffn_sum) * gamma2 + beta2", row_reduce,
     constant_list<Tensor::ffn_sum>, constant_list<Tensor::output>, {},
     constant_list<Parameter::gamma2, Parameter::beta2>},
}};
// clang-format on

constexpr std::array<std::string_view, kTensorCount> kTensorNames{
    "hidden", "qkv",       "q",        "k",     "v",      "scores",  "masked_scores", "probs",   "context",
    "merged", "attn_proj", "attn_sum", "norm1", "ffn_up", "ffn_act", "ffn_down",      "ffn_sum", "output"};
constexpr std::array<std::string_view, kWeightCount> kWeightNames{"w_qkv", "w_out", "w_ffn1", "w_ffn2"};
constexpr std::array<std::string_view, kParameterCount> kParameterNames{
    "b_qkv", "b_out", "gamma1", "beta1", "b_ffn1", "b_ffn2", "gamma2", "beta2"};

constexpr bool contains(std::span<const Tensor> tensors, Tensor tensor) {
  return std::find(tensors.begin(), tensors.end(), tensor) != tensors.end();
}

/// Rows stand in enum order and every tensor but `hidden` is written exactly once.
constexpr bool table_is_consistent() {
  std::array<int, kTensorCount> writers{};
  for (int i = 0; i < kOperatorCount; ++i) {
    if (static_cast<int>(kOperators[i].id) != i) return false;
    for (const Tensor tensor : kOperators[i].writes) ++writers[static_cast<int>(tensor)];
  }
  return writers[0] == 0 &&
         std::all_of(writers.begin() + 1, writers.end(), [](int count) { return count == 1; });
}
static_assert(table_is_consistent());

}  // namespace

const OperatorInfo& info(Operator op) { return kOperators[static_cast<int>(op)]; }
std::span<const OperatorInfo> operators() { return kOperators; }

std::string_view name(Operator op) { return info(op).name; }
std::string_view name(Tensor tensor) { return kTensorNames[static_cast<int>(tensor)]; }
std::string_view name(Weight weight) { return kWeightNames[static_cast<int>(weight)]; }
std::string_view name(Parameter parameter) { return kParameterNames[static_cast<int>(parameter)]; }

int producer(Tensor tensor) {
  for (int i = 0; i < kOperatorCount; ++i) {
    if (contains(kOperators[i].writes, tensor)) return i;
  }
  return -1;
}

bool is_live_out(Tensor tensor, int first, int last) {
  const int writer = producer(tensor);
  if (writer < first || writer > last) return false;
  if (tensor == Tensor::output) return true;
  for (int i = last + 1; i < kOperatorCount; ++i) {
    if (contains(kOperators[i].reads, tensor)) return true;
  }
  return false;
}

bool is_live_in(Tensor tensor, int first, int last) {
  const int writer = producer(tensor);
  if (first <= writer && writer <= last) return false;
  for (int i = first; i <= last; ++i) {
    if (contains(kOperators[i].reads, tensor)) return true;
  }
  return false;
}

}  // namespace fusetune::block
