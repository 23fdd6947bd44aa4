// Image: a translation unit with GPU kernels, as its compilers take it and as the prepared tree names it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "codegen/gpu_kernel.h"

namespace fusetune::device_check {

struct Image {
  std::string name;       // for people: "probes/numbers.cu", "[7-9] f16 handoff=norm ..."
  std::string symbol;     // of its first kernel
  std::string id;         // ft_kernel_id, 16 hexadecimal digits
  std::string cuda_text;  // for NVRTC
  std::string simt_text;  // for the emulator: the same kernels

  /// Named by all that decides its content, so that a tree of other sources is never taken for this one.
  std::string cubin_name() const;
};

/// A file of probes/, e.g. "numbers.cu". Throws base::InternalError when there is none.
Image probe_image(std::string_view file);
/// All files of probes/.
std::vector<Image> probe_images();
Image segment_image(const codegen::GpuKernel& kernel);

}  // namespace fusetune::device_check
