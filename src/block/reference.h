// The oracle: the block in float64, written from the definitions, sharing no code with any kernel.
#pragma once

#include <array>
#include <vector>

#include "block/data.h"
#include "block/mask.h"
#include "block/problem.h"

namespace fusetune::block {

/// Every tensor of the block in float64, [kTensorCount], row-major in the tensor's own shape.
/// Masked scores hold -infinity; padded rows of `output` are exactly zero.
struct Reference {
  std::array<std::vector<double>, kTensorCount> tensors;
  const std::vector<double>& operator[](Tensor tensor) const { return tensors[static_cast<int>(tensor)]; }
};

/// What a stored tensor keeps of its value.
enum class ReferenceRounding {
  none,      // all of float64
  as_stored  // rounded where block.md's rounding points are, as an unfused run in the problem's dtype does:
             // needed to judge 16-bit results whose logits are so large that rounding q and k decides
};

/// Computes all tensors on `threads` threads (0: all CPUs). The result does not depend on `threads`.
/// K and V rows of keys that no query of their batch entry sees are taken as zero, whatever they hold, so
/// `scores` is 0 there. Throws base::InternalError where data or mask do not belong to the problem.
Reference compute_reference(const Problem& problem, const Mask& mask, const BlockData& data, int threads = 0,
                            ReferenceRounding rounding = ReferenceRounding::none);

}  // namespace fusetune::block
