// What can be read from a compiled image without a driver.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace fusetune::backend::cuda {

/// The value of ft_kernel_id (FT_KERNEL_ID in kernels/cuda/platform_nvidia.h) in a cubin; nothing when
/// `image` is not a whole little-endian ELF64 file, or has no such symbol of 8 initialised bytes.
///
/// The compiler keeps the variable although no kernel reads it, but as a symbol of local binding.
std::optional<std::uint64_t> kernel_id(std::string_view image);

}  // namespace fusetune::backend::cuda
