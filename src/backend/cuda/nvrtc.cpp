#include "backend/cuda/nvrtc.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstdlib>
#include <system_error>

#include "base/error.h"

namespace fusetune::backend::cuda {
namespace {

namespace fs = std::filesystem;

fs::path variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? fs::path() : fs::path(value);
}

/// Entries of `directory` whose name starts with `prefix`, by descending name.
std::vector<fs::path> entries(const fs::path& directory, std::string_view prefix) {
  std::vector<fs::path> found;
  std::error_code error;
  for (auto entry = fs::directory_iterator(directory, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    if (entry->path().filename().string().starts_with(prefix)) found.push_back(entry->path());
  }
  std::sort(found.begin(), found.end(), std::greater<>());
  return found;
}

/// The toolkit's own name for it, or the newest version in the folder.
void add_library_in(const fs::path& folder, std::vector<fs::path>& places) {
  std::error_code ignored;
  if (fs::exists(folder / "libnvrtc.so", ignored)) {
    places.push_back(folder / "libnvrtc.so");
    return;
  }
  const std::vector<fs::path> versions = entries(folder, "libnvrtc.so.");
  places.push_back(versions.empty() ? folder / "libnvrtc.so" : versions.front());
}

template <class Function>
void find_function(void* library, const char* name, Function*& function, std::string& missing) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  if (function == nullptr && missing.empty()) missing = name;
}

fs::path loaded_path(void* library) {
  const link_map* map = nullptr;
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr) return {};
  std::error_code error;
  const fs::path path = fs::canonical(map->l_name, error);
  return error ? fs::path(map->l_name) : path;
}

std::string last_loader_error() {
  const char* text = dlerror();
  return text == nullptr ? "it cannot be loaded" : text;
}

/// NVRTC opens this library by its bare name; the one from PyPI does not say that it lies beside it.
void load_builtins_beside(const fs::path& library) {
  for (const fs::path& builtins : entries(library.parent_path(), "libnvrtc-builtins.so"))
    if (dlopen(builtins.c_str(), RTLD_NOW | RTLD_LOCAL) != nullptr) return;
}

}  // namespace

std::vector<fs::path> nvrtc_places() {
  if (const fs::path chosen = variable("FUSETUNE_NVRTC"); !chosen.empty()) return {chosen};
  std::vector<fs::path> places = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const fs::path root = variable(name); !root.empty()) add_library_in(root / "lib64", places);
  }
  add_library_in("/usr/local/cuda/lib64", places);
  for (const fs::path& root : entries("/usr/local", "cuda-")) add_library_in(root / "lib64", places);
  if (const fs::path environment = variable("VIRTUAL_ENV"); !environment.empty()) {
    for (const fs::path& python : entries(environment / "lib", "python3")) {
      for (const char* package : {"cu13", "cuda_nvrtc"})
        add_library_in(python / "site-packages" / "nvidia" / package / "lib", places);
    }
  }
  return places;
}

Nvrtc::Nvrtc() {
  std::string tried;
  for (const fs::path& place : nvrtc_places()) {
    const std::string reason = load(place);
    if (reason.empty()) return;
    tried += "\n  " + reason;
    if (!variable("FUSETUNE_NVRTC").empty()) {
      throw base::EnvironmentError(
          "cannot open NVRTC, which compiles CUDA kernels, at FUSETUNE_NVRTC: " + reason +
          "; set it to the path of a libnvrtc.so, or unset it to look for one");
    }
  }
  throw base::EnvironmentError("cannot open NVRTC, which compiles CUDA kernels; tried:" + tried + "\n" +
                               kNvrtcRemedy);
}

Nvrtc::Nvrtc(const fs::path& library) {
  const std::string reason = load(library);
  if (!reason.empty())
    throw base::EnvironmentError("cannot open NVRTC, which compiles CUDA kernels: " + reason);
}

std::string Nvrtc::load(const fs::path& library) {
  // Never closed: it keeps threads and per-thread data of its own.
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return last_loader_error();

  NvrtcFunctions f;
  std::string missing;
  find_function(handle, "nvrtcGetErrorString", f.get_error_string, missing);
  find_function(handle, "nvrtcVersion", f.version, missing);
  find_function(handle, "nvrtcGetNumSupportedArchs", f.get_num_supported_archs, missing);
  find_function(handle, "nvrtcGetSupportedArchs", f.get_supported_archs, missing);
  find_function(handle, "nvrtcCreateProgram", f.create_program, missing);
  find_function(handle, "nvrtcCompileProgram", f.compile_program, missing);
  find_function(handle, "nvrtcGetCUBINSize", f.get_cubin_size, missing);
  find_function(handle, "nvrtcGetCUBIN", f.get_cubin, missing);
  find_function(handle, "nvrtcGetProgramLogSize", f.get_program_log_size, missing);
  find_function(handle, "nvrtcGetProgramLog", f.get_program_log, missing);
  find_function(handle, "nvrtcDestroyProgram", f.destroy_program, missing);
  if (!missing.empty())
    return library.string() + ": has no function " + missing + "; CUDA 12 or newer is needed";
  std::string optional;
  find_function(handle, "nvrtcSetFlowCallback", f.set_flow_callback, optional);

  library_ = loaded_path(handle);
  if (library_.empty()) library_ = library;
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
