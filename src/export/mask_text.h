// The attention mask as a bundle carries it: for the CPU the pattern without padding, compactly, as C++ text;
// for GPUs the tiles that its kernels read, as C.
#pragma once

#include <string>

#include "block/mask.h"
#include "block/problem.h"

namespace fusetune::exporting {

/// The pattern that is left when padding is taken away: padding is the bundle's to add, at run time.
block::MaskSpec without_padding(const block::MaskSpec& spec);

/// src/mask_data.h: the 64-bit words of all rows of all entries, run-length coded. `mask` has no padding.
std::string mask_data_text(const block::Mask& mask);

/// src/mask_data.h of a GPU bundle, in C: the tiles that kernels read (kernels/cuda/abi.h), padding included.
std::string mask_tiles_text(const block::Mask& mask);

}  // namespace fusetune::exporting
