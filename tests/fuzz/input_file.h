// A file for the readers that want one, which lives in memory.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/unique_fd.h"

namespace fusetune::fuzz {

class InputFile {
 public:
  explicit InputFile(std::string_view content) : fd_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    while (fd_ && !content.empty()) {
      const ssize_t written = ::write(fd_.get(), content.data(), content.size());
      if (written <= 0) std::abort();
      content.remove_prefix(static_cast<std::size_t>(written));
    }
    if (!fd_ || ::lseek(fd_.get(), 0, SEEK_SET) != 0) std::abort();
  }
  /// At the file's beginning.
  int fd() const { return fd_.get(); }
  std::filesystem::path path() const { return "/proc/self/fd/" + std::to_string(fd_.get()); }

 private:
  base::UniqueFd fd_;
};

}  // namespace fusetune::fuzz
