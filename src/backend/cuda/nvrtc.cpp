#include "backend/cuda/nvrtc.h"

#include <algorithm>
#include <system_error>

#include "backend/cuda/toolkit_library.h"
#include "base/error.h"

namespace fusetune::backend::cuda {
namespace {

namespace fs = std::filesystem;

const ToolkitLibrary& library_of_nvrtc() {
  static const ToolkitLibrary kLibrary{.purpose = "NVRTC, which compiles CUDA kernels",
                                       .file = "libnvrtc.so",
                                       .variable = "FUSETUNE_NVRTC",
                                       .packages = {"cu13", "cuda_nvrtc"},
                                       .remedy = kNvrtcRemedy};
  return kLibrary;
}

/// NVRTC opens this library by its bare name; the one from PyPI does not say that it lies beside it.
void load_builtins_beside(const fs::path& library) {
  for (const fs::path& builtins : entries(library.parent_path(), "libnvrtc-builtins.so"))
    if (OpenLibrary(builtins).error().empty()) return;
}

}  // namespace

std::vector<fs::path> nvrtc_places() { return places(library_of_nvrtc()); }

std::string why_no_nvrtc(const std::string& error) { return why_missing(library_of_nvrtc(), error); }

Nvrtc::Nvrtc() {
  open_first(library_of_nvrtc(), [this](const fs::path& place) { return load(place); });
}

Nvrtc::Nvrtc(const fs::path& library) {
  const std::string reason = load(library);
  if (!reason.empty())
    throw base::EnvironmentError("cannot open NVRTC, which compiles CUDA kernels: " + reason);
}

std::string Nvrtc::load(const fs::path& library) {
  OpenLibrary open(library);
  NvrtcFunctions f;
  open.require("nvrtcGetErrorString", f.get_error_string);
  open.require("nvrtcVersion", f.version);
  open.require("nvrtcGetNumSupportedArchs", f.get_num_supported_archs);
  open.require("nvrtcGetSupportedArchs", f.get_supported_archs);
  open.require("nvrtcCreateProgram", f.create_program);
  open.require("nvrtcCompileProgram", f.compile_program);
  open.require("nvrtcGetCUBINSize", f.get_cubin_size);
  open.require("nvrtcGetCUBIN", f.get_cubin);
  open.require("nvrtcGetProgramLogSize", f.get_program_log_size);
  open.require("nvrtcGetProgramLog", f.get_program_log);
  open.require("nvrtcDestroyProgram", f.destroy_program);
  if (!open.error().empty()) return open.error();
  open.find("nvrtcSetFlowCallback", f.set_flow_callback);

  library_ = open.path();
  load_builtins_beside(library_);

  int count = 0;
  if (f.version(&major_, &minor_) != kNvrtcSuccess || f.get_num_supported_archs(&count) != kNvrtcSuccess)
    return library_.string() + ": does not tell its version";
  architectures_.assign(static_cast<std::size_t>(std::max(count, 1)), 0);
  if (f.get_supported_archs(architectures_.data()) != kNvrtcSuccess)
    return library_.string() + ": does not tell its architectures";
  std::sort(architectures_.begin(), architectures_.end());
  functions_ = f;
  return {};
}

std::string Nvrtc::version() const { return std::to_string(major_) + "." + std::to_string(minor_); }

std::string Nvrtc::identity() const {
  std::error_code error;
  const auto bytes = fs::file_size(library_, error);
  return "nvrtc " + version() + " " + library_.filename().string() + " " +
         (error ? std::string("?") : std::to_string(bytes));
}

}  // namespace fusetune::backend::cuda
