// manifest.json and SHA256SUMS of a bundle.
#pragma once

#include <string>

#include "export/bundle.h"
#include "export/cuda_bundle.h"

namespace fusetune::exporting {

/// `files`: everything in the bundle but the manifest and SHA256SUMS.
std::string manifest_text(const BundleInput& input, const Files& files);
std::string manifest_text(const CudaBundleInput& input, const Files& files);
/// For `sha256sum -c`: every file but itself.
std::string checksums_text(const Files& files);

}  // namespace fusetune::exporting
