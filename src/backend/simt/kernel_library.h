// Kernels of the emulator, loaded: what a LibraryCompiler (library_compiler.h) makes.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "backend/simt/emulator.h"

namespace fusetune::backend::simt {

class KernelLibrary;

/// A kernel that can be launched. Lives as long as its library.
struct Kernel {
  std::string symbol;
  int threads = 0;  // of a block, as FT_KERNEL says
  void (*function)(const ft_gpu_args&) = nullptr;
  const KernelLibrary* library = nullptr;
};

/// A loaded shared object.
class KernelLibrary {
 public:
  /// Loads `path`; whatever `keep_alive` owns lives as long (the file: findings read its line tables). Throws
  /// base::EnvironmentError when it cannot be loaded.
  KernelLibrary(const std::filesystem::path& path, Mode mode, std::shared_ptr<const void> keep_alive);
  ~KernelLibrary();
  KernelLibrary(const KernelLibrary&) = delete;
  KernelLibrary& operator=(const KernelLibrary&) = delete;

  /// The kernel declared by FT_KERNEL(symbol, ...). Throws base::EnvironmentError when there is none.
  Kernel kernel(const std::string& symbol) const;

  Mode mode() const { return mode_; }
  const std::filesystem::path& path() const { return path_; }
  /// Whether an address lies in the library: its code, or its constant tables.
  bool contains(const void* address) const { return address >= begin_ && address < end_; }
  const void* begin() const { return begin_; }
  /// Whether an address lies in the calls to the emulator, which are of no kernel's line.
  bool in_hooks(const void* address) const { return address >= hooks_begin_ && address < hooks_end_; }

 private:
  std::filesystem::path path_;
  Mode mode_;
  std::shared_ptr<const void> keep_alive_;
  void* handle_ = nullptr;
  const void* begin_ = nullptr;
  const void* end_ = nullptr;
  const void* hooks_begin_ = nullptr;
  const void* hooks_end_ = nullptr;
};

}  // namespace fusetune::backend::simt
