// KernelCompiler behind the interface that all devices share.
#pragma once

#include <memory>

#include "backend/compiled_kernel.h"
#include "backend/cpu/kernel_compiler.h"

namespace fusetune::backend::cpu {

std::unique_ptr<DeviceCompiler> make_device_compiler(Compiler compiler, lower::Isa isa,
                                                     CompileOptions options);

}  // namespace fusetune::backend::cpu
