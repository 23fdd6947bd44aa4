// NVIDIA's run-time compiler, found and opened when it is first needed: building fusetune needs no CUDA.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace fusetune::backend::cuda {

/// The library's functions, as <nvrtc.h> of CUDA 12 and 13 declares them with its two types spelled out: its
/// enum of results as int, its pointer to an opaque program as void*.
/// tests/backend/cuda/declarations_test.cpp compares them with that header.
struct NvrtcFunctions {
  const char* (*get_error_string)(int result) = nullptr;
  int (*version)(int* major, int* minor) = nullptr;
  int (*get_num_supported_archs)(int* count) = nullptr;
  int (*get_supported_archs)(int* architectures) = nullptr;
  int (*create_program)(void** program, const char* text, const char* name, int headers,
                        const char* const* header_texts, const char* const* header_names) = nullptr;
  int (*compile_program)(void* program, int options, const char* const* option) = nullptr;
  int (*get_cubin_size)(void* program, std::size_t* bytes) = nullptr;
  int (*get_cubin)(void* program, char* cubin) = nullptr;
  int (*get_program_log_size)(void* program, std::size_t* bytes) = nullptr;  // with the final zero
  int (*get_program_log)(void* program, char* log) = nullptr;
  int (*destroy_program)(void** program) = nullptr;
  /// Null in older releases: `callback(payload, null)` is called during a compile; 1 cancels it.
  int (*set_flow_callback)(void* program, int (*callback)(void*, void*), void* payload) = nullptr;
};

inline constexpr int kNvrtcSuccess = 0;
inline constexpr int kNvrtcErrorOutOfMemory = 1;
inline constexpr int kNvrtcErrorCompilation = 6;
inline constexpr int kNvrtcErrorBuiltinOperation = 7;
inline constexpr int kNvrtcErrorCancelled = 16;

/// How to get it, for people.
inline constexpr const char* kNvrtcRemedy =
    "install CUDA 12 or 13, or the Python package nvidia-cuda-nvrtc (CUDA 12: nvidia-cuda-nvrtc-cu12), and "
    "set FUSETUNE_NVRTC to the path of its libnvrtc.so if it is not found by itself";

/// What Nvrtc() tries in this order; a bare name is searched by the loader.
std::vector<std::filesystem::path> nvrtc_places();

/// The short reason why Nvrtc() threw `error`: the path that was set and is wrong, else that none is found.
std::string why_no_nvrtc(const std::string& error);

/// A loaded NVRTC; it stays loaded for the life of the process. Copies are cheap and refer to the same
/// library. All members are safe to call from several threads.
class Nvrtc {
 public:
  /// Opens the first that works of: $FUSETUNE_NVRTC (the library's path; if set, nothing else is tried),
  /// what the loader finds (libnvrtc.so.13, .12, no number), lib64 under $CUDA_HOME, $CUDA_PATH and
  /// /usr/local/cuda*, and the Python wheels' folders in $VIRTUAL_ENV. Throws base::EnvironmentError with
  /// all that was tried, why each failed, and how to get the library.
  Nvrtc();
  /// Opens this library only. Throws base::EnvironmentError.
  explicit Nvrtc(const std::filesystem::path& library);

  /// "13.0": a compiler's release, not the driver's.
  std::string version() const;
  int major() const { return major_; }
  int minor() const { return minor_; }
  /// Compute capabilities as it numbers them, ascending: 80, 86, ..., 120.
  const std::vector<int>& architectures() const { return architectures_; }
  /// The file that was loaded, links resolved.
  const std::filesystem::path& library() const { return library_; }
  /// For cache keys: version, file name and size, which tell builds of one release apart.
  std::string identity() const;
  const NvrtcFunctions& functions() const { return functions_; }

 private:
  /// Empty when it was loaded, else the reason.
  std::string load(const std::filesystem::path& library);

  NvrtcFunctions functions_;
  int major_ = 0;
  int minor_ = 0;
  std::vector<int> architectures_;
  std::filesystem::path library_;
};

}  // namespace fusetune::backend::cuda
