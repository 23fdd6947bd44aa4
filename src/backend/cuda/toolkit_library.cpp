#include "backend/cuda/toolkit_library.h"

#include <dlfcn.h>
#include <fmt/core.h>
#include <link.h>

#include <algorithm>
#include <cstdlib>
#include <system_error>

#include "base/error.h"

namespace fusetune::backend::cuda {
namespace {

namespace fs = std::filesystem;

fs::path variable(std::string_view name) {
  const char* value = std::getenv(std::string(name).c_str());
  return value == nullptr ? fs::path() : fs::path(value);
}

/// The toolkit's own name for it, or the newest version in the folder.
void add_library_in(const fs::path& folder, std::string_view file, std::vector<fs::path>& places) {
  std::error_code ignored;
  const fs::path plain = folder / file;
  const std::vector<fs::path> versions = entries(folder, std::string(file) + ".");
  places.push_back(fs::exists(plain, ignored) || versions.empty() ? plain : versions.front());
}

void add_wheels_in(const fs::path& environment, const ToolkitLibrary& library,
                   std::vector<fs::path>& places) {
  for (const fs::path& python : entries(environment / "lib", "python3"))
    for (const std::string_view package : library.packages)
      add_library_in(python / "site-packages" / "nvidia" / package / "lib", library.file, places);
}

}  // namespace

std::vector<fs::path> entries(const fs::path& folder, std::string_view prefix) {
  std::vector<fs::path> found;
  std::error_code error;
  for (auto entry = fs::directory_iterator(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    if (entry->path().filename().string().starts_with(prefix)) found.push_back(entry->path());
  }
  std::sort(found.begin(), found.end(), std::greater<>());
  return found;
}

std::vector<fs::path> places(const ToolkitLibrary& library) {
  if (const fs::path chosen = variable(library.variable); !chosen.empty()) return {chosen};
  std::vector<fs::path> places;
  for (const char* version : {".13", ".12", ""}) places.emplace_back(std::string(library.file) + version);
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const fs::path root = variable(name); !root.empty())
      add_library_in(root / "lib64", library.file, places);
  }
  add_library_in("/usr/local/cuda/lib64", library.file, places);
  for (const fs::path& root : entries("/usr/local", "cuda-"))
    add_library_in(root / "lib64", library.file, places);
  if (const fs::path environment = variable("VIRTUAL_ENV"); !environment.empty())
    add_wheels_in(environment, library, places);
  return places;
}

void open_first(const ToolkitLibrary& library, const std::function<std::string(const fs::path&)>& load) {
  const bool is_chosen = !variable(library.variable).empty();
  std::string tried;
  for (const fs::path& place : places(library)) {
    const std::string reason = load(place);
    if (reason.empty()) return;
    tried += "\n  " + reason;
    if (is_chosen)
      throw base::EnvironmentError(
          fmt::format("cannot open {}, at {}: {}; set it to the path of a {}, or unset it to look for one",
                      library.purpose, library.variable, reason, library.file));
  }
  throw base::EnvironmentError(
      fmt::format("cannot open {}; tried:{}\n{}", library.purpose, tried, library.remedy));
}

std::string why_missing(const ToolkitLibrary& library, const std::string& error) {
  return variable(library.variable).empty() ? std::string(library.purpose) + ", is not found" : error;
}

OpenLibrary::OpenLibrary(const fs::path& file)
    : file_(file), handle_(dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (handle_ != nullptr) return;
  const char* text = dlerror();
  error_ = text == nullptr ? file.string() + ": it cannot be loaded" : text;
}

void* OpenLibrary::symbol(const char* name) const {
  return handle_ == nullptr ? nullptr : dlsym(handle_, name);
}

fs::path OpenLibrary::path() const {
  const link_map* map = nullptr;
  if (handle_ == nullptr || dlinfo(handle_, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr) return file_;
  std::error_code error;
  const fs::path path = fs::canonical(map->l_name, error);
  return error ? fs::path(map->l_name) : path;
}

}  // namespace fusetune::backend::cuda
