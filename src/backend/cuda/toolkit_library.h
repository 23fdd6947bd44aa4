// Shared libraries of the CUDA toolkit: where installations put them, and how they are opened. Building and
// running fusetune needs none of them.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace fusetune::backend::cuda {

struct ToolkitLibrary {
  std::string_view purpose;                // "NVRTC, which compiles CUDA kernels": for messages
  std::string_view file;                   // "libnvrtc.so"
  std::string_view variable;               // "FUSETUNE_NVRTC": names its path; if set, nothing else is tried
  std::vector<std::string_view> packages;  // folders of Python's wheels below site-packages/nvidia
  std::string_view remedy;                 // how to get it
};

/// What open_first() tries in this order; a bare name is searched by the loader: `variable` alone, else what
/// the loader finds (file.13, file.12, file), lib64 under $CUDA_HOME, $CUDA_PATH and /usr/local/cuda*, and
/// the wheels in $VIRTUAL_ENV.
std::vector<std::filesystem::path> places(const ToolkitLibrary& library);

/// Calls `load` with one place after the other until it returns an empty text; others are reasons. Throws
/// base::EnvironmentError with all that was tried, why each failed, and how to get the library.
void open_first(const ToolkitLibrary& library,
                const std::function<std::string(const std::filesystem::path&)>& load);

/// The short reason for people why open_first() threw `error`: the place that was set and is wrong, else that
/// none is found, without the whole list of places.
std::string why_missing(const ToolkitLibrary& library, const std::string& error);

/// Files whose name starts with `prefix`, by descending name; none where the folder cannot be read.
std::vector<std::filesystem::path> entries(const std::filesystem::path& folder, std::string_view prefix);

/// An opened library and its functions. It is never closed: such libraries keep threads of their own.
class OpenLibrary {
 public:
  /// Ask error() whether it worked.
  explicit OpenLibrary(const std::filesystem::path& file);

  /// Null where the library has no such function.
  template <class Function>
  void find(const char* name, Function*& function) {
    function = reinterpret_cast<Function*>(symbol(name));
  }
  /// What find() gives null for becomes the error.
  template <class Function>
  void require(const char* name, Function*& function) {
    find(name, function);
    if (function == nullptr && error_.empty())
      error_ = file_.string() + ": has no function " + name + "; CUDA 12 or newer is needed";
  }
  /// Empty: it is open and has all that was required.
  const std::string& error() const { return error_; }
  /// The file that was loaded, links resolved.
  std::filesystem::path path() const;

 private:
  void* symbol(const char* name) const;

  std::filesystem::path file_;
  void* handle_ = nullptr;
  std::string error_;
};

}  // namespace fusetune::backend::cuda
