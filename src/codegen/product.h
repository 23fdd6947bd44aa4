// The block's four products with a weight, as the generators for CPU and GPU name their parts.
#pragma once

#include <string_view>

#include "block/operators.h"
#include "block/problem.h"

namespace fusetune::codegen {

struct Product {
  block::Weight weight;
  block::Tensor input;
  block::Tensor output;            // of the product alone
  block::Tensor output_with_next;  // with the element-wise operator behind it: q for q, k and v
  std::string_view k, n;           // names of the generated constants
};

/// The product that operator `op` is. Throws base::InternalError for other operators.
Product product_of(int op);
/// Columns of its result.
std::int64_t product_columns(int op, const block::Problem& problem);

}  // namespace fusetune::codegen
