// From an address in a kernel library to its place in the source. Internal to the emulator.
#pragma once

#include <string>

#include "backend/simt/kernel_library.h"

namespace fusetune::backend::simt {

/// Where compilers are told that the source lies, so that line tables are the same on every machine.
inline constexpr const char* kSourceRoot = "/fusetune-kernels";

/// Full path of addr2line; empty when it is not installed.
std::string find_addr2line();

/// "cuda/gemm.h:31, called at kernels.cu:12" for a return address (or one past a fault); the platform's own
/// header is left out. Empty when the address is not in the library or addr2line cannot tell.
std::string source_location(const KernelLibrary& library, const void* return_address);

}  // namespace fusetune::backend::simt
