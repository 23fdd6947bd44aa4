// Pieces of text that the generators for CPU and GPU share.
#pragma once

#include <string>

#include "block/problem.h"

namespace fusetune::codegen {

/// A float literal with all its digits: "1e-12f", "0.125f".
std::string float_literal(double value);
/// "7 out_gemm, 8 out_bias_residual".
std::string operator_list(int first, int last);
/// The comment line that says which problem a kernel is for: any batch and any mask.
std::string problem_line(const block::Problem& problem);

}  // namespace fusetune::codegen
