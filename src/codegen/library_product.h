// LibraryProduct: a segment that is exactly what one call of the vendor's library does, a matrix product
// alone or with bias and GELU, computed by it instead of a generated kernel.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lower/gpu_schedule.h"

namespace fusetune::codegen {

/// Memory that the library may use beside the matrices.
inline constexpr std::int64_t kLibraryWorkspaceBytes = std::int64_t{32} << 20;

/// output[m, n] = input[m, k] weight[k, n], row-major, in `dtype` with sums in float32; where there is a
/// bias[n], output = GELU(input weight + bias) with GELU in its tanh form.
struct LibraryProduct {
  plan::SegmentVariant variant;
  lower::GpuSchedule schedule;
  block::Dtype dtype = block::Dtype::f32;
  std::string symbol;  // unique, for messages: "ft_library_7_7_f16_<hash>"
  std::string call;    // what is asked of which library, as comment lines
  std::string hash;    // of `call`: another version of the library is another kernel; 16 hexadecimal digits
  std::vector<block::Tensor> reads;      // its input
  std::vector<block::Tensor> writes;     // its output
  std::vector<block::Tensor> workspace;  // none
  block::Weight weight = block::Weight::w_qkv;
  std::optional<block::Parameter> bias;  // of the same dtype as the output; none: the product alone
  std::int64_t m = 0, n = 0, k = 0;
};

/// Pure and deterministic. Throws base::UsageError for a schedule that lower::refuse() refuses, naming its
/// reason, and base::InternalError for one that is not product=library.
LibraryProduct generate_library(const plan::SegmentVariant& variant, const lower::GpuSchedule& schedule,
                                const block::Problem& problem, const lower::GpuTarget& target);

}  // namespace fusetune::codegen
