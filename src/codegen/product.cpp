#include "codegen/product.h"

#include "base/error.h"

namespace fusetune::codegen {

using block::Tensor;
using block::Weight;

Product product_of(int op) {
  switch (op) {
    case 0:
      return {Weight::w_qkv, Tensor::hidden, Tensor::qkv, Tensor::q, "D", "3 * D"};
    case 7:
      return {Weight::w_out, Tensor::merged, Tensor::attn_proj, Tensor::attn_sum, "D", "D"};
    case 10:
      return {Weight::w_ffn1, Tensor::norm1, Tensor::ffn_up, Tensor::ffn_act, "D", "F"};
    case 12:
      return {Weight::w_ffn2, Tensor::ffn_act, Tensor::ffn_down, Tensor::ffn_sum, "F", "D"};
    default:
      throw base::InternalError("operator is not a product with a weight");
  }
}

std::int64_t product_columns(int op, const block::Problem& problem) {
  return op == 0 ? 3 * problem.hidden() : op == 10 ? problem.ffn : problem.hidden();
}

}  // namespace fusetune::codegen
