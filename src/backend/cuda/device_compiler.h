// CubinCompiler behind the interface that all devices share.
#pragma once

#include <functional>
#include <memory>

#include "backend/compiled_kernel.h"
#include "backend/cuda/cubin_compiler.h"

namespace fusetune::backend::cuda {

/// `poll`, if any, is called whenever a kernel is done; what it throws ends the compilers and passes through.
std::unique_ptr<DeviceCompiler> make_device_compiler(CudaCompiler compiler, const Architecture& architecture,
                                                     CubinOptions options, std::function<void()> poll);

}  // namespace fusetune::backend::cuda
