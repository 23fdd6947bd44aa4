// Comparison of a tensor that kernels computed with the oracle's.
//
// Two figures per tensor: the norm error ||out - ref|| / ||ref||, and the worst element's error divided by
// the largest magnitude in its row (last dimension). Not compared are
//   - padded rows (query i >= length[b]) of every tensor but `output`, where they are exactly zero,
//   - columns of `scores` whose key no query sees: its row of K counts as zero, whatever it holds.
// Compared exactly are zero rows of the oracle (fully masked rows of context, padded rows of output), zeros
// of probs (a masked pair has weight 0, not nearly 0) and -infinity of masked_scores.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "block/mask.h"
#include "block/problem.h"
#include "measure/session.h"

namespace fusetune::measure {

/// Largest errors that pass.
struct Bounds {
  double norm;
  double worst;
};
Bounds bounds(block::Dtype dtype);

/// The oracle's tensors, float64, in their own shape.
using Oracle = std::function<std::span<const double>(block::Tensor)>;

/// Compares `got`, a whole tensor, with the oracle. Anything that is not finite fails, but -infinity where it
/// is expected. Throws base::InternalError for a wrong length.
TensorCheck compare_with_oracle(const block::Problem& problem, const block::Mask& mask, block::Tensor tensor,
                                std::span<const float> got, const Oracle& oracle);

/// True when both hold the same bits wherever compare_with_oracle() looks.
bool same_values(const block::Problem& problem, const block::Mask& mask, block::Tensor tensor,
                 std::span<const float> first, std::span<const float> second);

/// One line that says what is wrong with a failed check: "norm1 at [0,3,17]: got 1.25, want 1.24; norm error
/// ...".
std::string describe(const TensorCheck& check, const Bounds& limits);

}  // namespace fusetune::measure
