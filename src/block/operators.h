// The operator and tensor tables of the encoder block: the one place that says what reads what.
//
// Post-LN encoder layer (BERT). Shapes: B batch, S sequence length, H heads, W head size,
// D = H*W hidden size, F inner FFN size, M = B*S tokens.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace fusetune::block {

inline constexpr int kOperatorCount = 15;

/// Operators in execution order. Position p of a fusion mask holds operator p - 1.
enum class Operator : std::uint8_t {
  qkv_gemm,
  qkv_bias,
  scores,
  mask,
  softmax,
  context,
  merge_heads,
  out_gemm,
  out_bias_residual,
  layernorm1,
  ffn1_gemm,
  ffn1_bias_gelu,
  ffn2_gemm,
  ffn2_bias_residual,
  layernorm2,
};

inline constexpr int kTensorCount = 18;

/// Activation tensors, single-assignment: each is written by exactly one operator (`hidden` by none).
enum class Tensor : std::uint8_t {
  hidden,         // [B,S,D]   block input
  qkv,            // [B,S,3D]
  q,              // [B,H,S,W]
  k,              // [B,H,S,W]
  v,              // [B,H,S,W]
  scores,         // [B,H,S,S] float32 in memory whatever the dtype
  masked_scores,  // [B,H,S,S] float32 in memory whatever the dtype
  probs,          // [B,H,S,S] float32 in memory whatever the dtype
  context,        // [B,H,S,W]
  merged,         // [B,S,D]
  attn_proj,      // [B,S,D]
  attn_sum,       // [B,S,D]
  norm1,          // [B,S,D]
  ffn_up,         // [B,S,F]
  ffn_act,        // [B,S,F]
  ffn_down,       // [B,S,D]
  ffn_sum,        // [B,S,D]
  output,         // [B,S,D]   block output
};

inline constexpr int kWeightCount = 4;

/// Weight matrices, row-major [in, out].
enum class Weight : std::uint8_t {
  w_qkv,   // [D,3D]; columns: all of q (head-major), then k, then v
  w_out,   // [D,D]
  w_ffn1,  // [D,F]
  w_ffn2,  // [F,D]
};

inline constexpr int kParameterCount = 8;

/// Vector parameters, always float32.
enum class Parameter : std::uint8_t {
  b_qkv,   // [3D]
  b_out,   // [D]
  gamma1,  // [D]
  beta1,   // [D]
  b_ffn1,  // [F]
  b_ffn2,  // [D]
  gamma2,  // [D]
  beta2,   // [D]
};

/// What an operator needs of its input, which decides how it can share a kernel with its neighbour.
enum class OperatorKind : std::uint8_t {
  gemm,          // row block of the input times a whole weight matrix
  elementwise,   // the same element
  batched_gemm,  // rows of other blocks: every key row (scores) or value row (context)
  row_reduce,    // whole rows: softmax, LayerNorm
};

struct OperatorInfo {
  Operator id;
  std::string_view name;
  std::string_view formula;  // as documented, e.g. "hidden @ w_qkv"
  OperatorKind kind;
  std::span<const Tensor> reads;  // first the main input, then skip edges
  std::span<const Tensor> writes;
  std::span<const Weight> weights;  // empty or one
  std::span<const Parameter> parameters;
};

/// The table row of one operator.
const OperatorInfo& info(Operator op);
/// All 15 rows in execution order.
std::span<const OperatorInfo> operators();

std::string_view name(Operator op);
std::string_view name(Tensor tensor);
std::string_view name(Weight weight);
std::string_view name(Parameter parameter);

/// Index of the operator that writes `tensor`; -1 for `hidden`.
int producer(Tensor tensor);

/// True when `tensor` must be in memory after a kernel that runs operators [first, last] (indices,
/// inclusive): it is written there, and is the block's output or read by an operator after `last`.
bool is_live_out(Tensor tensor, int first, int last);
/// True when an operator of [first, last] reads `tensor` and none of them writes it.
bool is_live_in(Tensor tensor, int first, int last);

}  // namespace fusetune::block
