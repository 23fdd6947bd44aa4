// What `devices` and `doctor` say about CUDA.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace fusetune::backend::cuda {

/// Needs neither CUDA nor a GPU: what is not there is a warning with its remedy, never a missing part, as
/// fusetune works without.
std::unique_ptr<Backend> make_cuda_backend();

}  // namespace fusetune::backend::cuda
