#include "backend/simt/kernel_library.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <span>
#include <tuple>
#include <utility>

#include "backend/simt/hooks.h"
#include "base/error.h"

namespace fusetune::backend::simt {
namespace {

namespace fs = std::filesystem;

/// Where the library is mapped: [begin, end).
std::pair<const void*, const void*> find_extent(const void* inside) {
  struct Search {
    std::uintptr_t inside, begin = 0, end = 0;
  } search{reinterpret_cast<std::uintptr_t>(inside)};
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        Search& wanted = *static_cast<Search*>(data);
        std::uintptr_t end = info->dlpi_addr;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const ElfW(Phdr)& header = info->dlpi_phdr[i];
          if (header.p_type == PT_LOAD)
            end = std::max(end, info->dlpi_addr + header.p_vaddr + header.p_memsz);
        }
        if (wanted.inside < info->dlpi_addr || wanted.inside >= end) return 0;
        wanted.begin = info->dlpi_addr;
        wanted.end = end;
        return 1;
      },
      &search);
  // The loader gives addresses as integers.
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  return {reinterpret_cast<const void*>(search.begin), reinterpret_cast<const void*>(search.end)};
}

}  // namespace

KernelLibrary::KernelLibrary(const fs::path& path, Mode mode, std::shared_ptr<const void> keep_alive)
    : path_(path), mode_(mode), keep_alive_(std::move(keep_alive)) {
  const auto refuse = [&path](const std::string& reason) {
    throw base::EnvironmentError("cannot load the kernels in '" + path.string() + "': " + reason +
                                 "; delete the file to have it compiled again");
  };
  handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle_ == nullptr) refuse(dlerror());
  auto** const table = static_cast<const void**>(dlsym(handle_, kHookTable));
  if (table == nullptr) {
    dlclose(handle_);
    refuse("it is no kernel library");
  }
  const std::span<const Hook> all = hooks();
  for (std::size_t i = 0; i < all.size(); ++i) table[i] = all[i].function;
  std::tie(begin_, end_) = find_extent(table);
  hooks_begin_ = dlsym(handle_, kHooksBegin);
  hooks_end_ = dlsym(handle_, kHooksEnd);
}

KernelLibrary::~KernelLibrary() { dlclose(handle_); }

Kernel KernelLibrary::kernel(const std::string& symbol) const {
  const auto* const threads = static_cast<const int*>(dlsym(handle_, (symbol + "_threads").c_str()));
  void* const function = dlsym(handle_, symbol.c_str());
  if (threads == nullptr || function == nullptr) {
    throw base::EnvironmentError("cannot load kernel " + symbol + ": '" + path_.string() +
                                 "' does not contain it; delete the file to have it compiled again");
  }
  return {symbol, *threads, reinterpret_cast<void (*)(const ft_gpu_args&)>(function), this};
}

}  // namespace fusetune::backend::simt
