// The generated headers of a bundle's sources.
#pragma once

#include <string>

#include "export/bundle.h"

namespace fusetune::exporting {

/// src/config.h: sizes, weight layouts, memory and kernels of the plan.
std::string config_text(const BundleInput& input);
/// The symbol of a kernel within the bundle: "encoder_segment_7_14_0123456789ab".
std::string bundle_symbol(const std::string& name, const codegen::KernelSource& kernel);
/// The rows of verify/data.h: how each of the 13 generated tensors is filled.
std::string data_rows(const block::Problem& problem);

}  // namespace fusetune::exporting
