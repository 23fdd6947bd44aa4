#include "backend/cpu/loaded_kernel.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/unique_fd.h"

namespace fusetune::backend::cpu {
namespace {

namespace fs = std::filesystem;

/// One dlopened copy of a library.
///
/// dlopen() returns what is already loaded when the name, or device and inode, are the same, so a library
/// that was rebuilt under its path would come back as the old one. The bytes therefore get a name and an
/// inode of their own: a memory file, whose descriptor stays open so that /proc/self/fd/N names nothing else
/// meanwhile.
class Library {
 public:
  Library(const fs::path& path, const std::string& bytes) {
    if (open_in_memory(bytes) || open_temporary(bytes)) return;
    throw base::EnvironmentError("cannot load the compiled kernels in '" + path.string() + "': " + error_ +
                                 "; delete the file to have it compiled again");
  }
  ~Library() { dlclose(handle_); }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  void* find(const std::string& symbol) const { return dlsym(handle_, symbol.c_str()); }

 private:
  bool open(const std::string& name) {
    handle_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ == nullptr) error_ = dlerror();
    return handle_ != nullptr;
  }

  bool open_in_memory(const std::string& bytes) {
    memory_ = base::UniqueFd(memfd_create("fusetune-kernels", MFD_CLOEXEC));
    if (!memory_) return false;
    for (std::size_t done = 0; done < bytes.size();) {
      const ssize_t written = write(memory_.get(), bytes.data() + done, bytes.size() - done);
      if (written <= 0) return false;
      done += static_cast<std::size_t>(written);
    }
    return open("/proc/self/fd/" + std::to_string(memory_.get()));
  }

  /// For kernels that forbid executable memory files. The directory lives as long as the library.
  bool open_temporary(const std::string& bytes) {
    temporary_.emplace();
    const fs::path copy = temporary_->path() / "kernels.so";
    base::write_file_atomic(copy, bytes);
    return open(copy.string());
  }

  base::UniqueFd memory_;
  std::optional<base::TemporaryDirectory> temporary_;
  void* handle_ = nullptr;
  std::string error_;
};

/// The cache names a library by the hash of its content: a name of 32 hexadecimal digits is a promise.
bool breaks_promise(const fs::path& path, const std::string& hash) {
  const std::string stem = path.stem().string();
  const bool is_hash =
      stem.size() == hash.size() && stem.find_first_not_of("0123456789abcdef") == std::string::npos;
  return is_hash && stem != hash;
}

/// The library of these bytes: the one already loaded, or a new one.
std::shared_ptr<const Library> load_library(const fs::path& path) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<const Library>> loaded;  // by content

  const std::string bytes = base::read_file(path);
  const std::string hash = base::hash_hex(bytes);
  if (breaks_promise(path, hash)) {
    throw base::EnvironmentError("cannot load the compiled kernels in '" + path.string() +
                                 "': the file was changed or cut; delete it to have it compiled again");
  }
  const std::lock_guard lock(mutex);
  std::erase_if(loaded, [](const auto& entry) { return entry.second.expired(); });
  if (const auto known = loaded.find(hash); known != loaded.end()) {
    if (auto library = known->second.lock()) return library;
  }
  auto library = std::make_shared<const Library>(path, bytes);
  loaded[hash] = library;
  return library;
}

}  // namespace

struct LoadedKernel::Impl {
  std::shared_ptr<const Library> library;
  SegmentFunction function = nullptr;
  codegen::KernelSource source;
};

LoadedKernel::LoadedKernel(const CompiledKernel& kernel) : impl_(std::make_unique<Impl>()) {
  impl_->library = load_library(kernel.library);
  impl_->function = reinterpret_cast<SegmentFunction>(impl_->library->find(kernel.symbol));
  if (impl_->function == nullptr) {
    throw base::EnvironmentError("cannot load kernel " + kernel.symbol + ": '" + kernel.library.string() +
                                 "' does not contain it; delete the file to have it compiled again");
  }
  impl_->source = kernel.source;
}

LoadedKernel::~LoadedKernel() = default;
LoadedKernel::LoadedKernel(LoadedKernel&&) noexcept = default;
LoadedKernel& LoadedKernel::operator=(LoadedKernel&&) noexcept = default;

SegmentFunction LoadedKernel::function() const { return impl_->function; }
const codegen::KernelSource& LoadedKernel::source() const { return impl_->source; }

}  // namespace fusetune::backend::cpu
