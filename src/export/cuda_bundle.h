// Bundles for NVIDIA's GPUs: one kernel per segment, as CUDA C++ and as a cubin, behind a launcher in C.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "codegen/gpu_kernel.h"
#include "export/bundle.h"

namespace fusetune::exporting {

/// What the emulator found when it ran the very kernels of a bundle, every access looked at: nothing wrong,
/// or there would be no bundle.
struct EmulatorVerdict {
  struct Kernel {
    double norm_error = 0, worst_error = 0;  // the largest of its outputs
  };
  std::int64_t batch = 1;
  std::vector<Kernel> kernels;  // in order
  Kernel plan;                  // of `output`, through all kernels
};

struct CudaKernel {
  codegen::GpuKernel source;
  std::string cubin;
};

struct CudaBundleInput : BundleOrigin {
  std::vector<CudaKernel> kernels;          // in order, one per segment
  std::vector<std::string> replaced;        // segments timed fastest as a library's products: "[7]"
  std::string architecture;                 // "sm_90a"
  std::string compiler;                     // "nvrtc 13.0"
  std::vector<std::string> flags;           // it was called with
  double norm_bound = 0, worst_bound = 0;   // of the dtype, for the verify program
  bool ran = true;                          // on a GPU: norm_error and worst_error are known
  std::optional<EmulatorVerdict> emulated;  // none: it was left out
};

/// "segment_1_6_hand_written", in order: kernels/NAME.cu and cubin/NAME.cubin.
std::vector<std::string> kernel_names(const CudaBundleInput& input);

/// Everything but the manifest. Pure but for the float64 reference that it computes, which takes a while for
/// large problems.
Files bundle_sources(const CudaBundleInput& input);

}  // namespace fusetune::exporting
