// The attention mask as a bundle carries it: the pattern without padding, compactly, as C++ text.
#pragma once

#include <string>

#include "block/mask.h"
#include "block/problem.h"

namespace fusetune::exporting {

/// The pattern that is left when padding is taken away: padding is the bundle's to add, at run time.
block::MaskSpec without_padding(const block::MaskSpec& spec);

/// src/mask_data.h: the 64-bit words of all rows of all entries, run-length coded. `mask` has no padding.
std::string mask_data_text(const block::Mask& mask);

}  // namespace fusetune::exporting
