// The generated texts of a GPU bundle's launcher.
#pragma once

#include <string>

#include "export/cuda_bundle.h"

namespace fusetune::exporting {

/// src/config.h: kernels with what a launch of them takes, and the tensors of the workspace.
std::string config_text(const CudaBundleInput& input);
/// The rows of src/cubins.S.
std::string cubin_rows(const CudaBundleInput& input);

}  // namespace fusetune::exporting
