// The emulator's global memory: named buffers between guard pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "backend/simt/shadow_memory.h"

namespace fusetune::backend::simt {

enum class Access {
  read_write,
  read_only,      // a kernel's store is a finding
  uninitialised,  // as read_write, and reading what no kernel has written is a finding
};

/// One buffer. `begin` is 256-byte aligned. Between `end` and the next page, which is inaccessible, lie at
/// most 255 bytes: a pattern that is checked after every launch.
struct Buffer {
  unsigned char* begin = nullptr;
  unsigned char* end = nullptr;
  std::string name;
  Access access = Access::read_write;
  unsigned char* pages_begin = nullptr;  // first page; what lies before `begin` holds the pattern too
  unsigned char* pages_end = nullptr;    // the guard page
  ShadowRegion shadow;                   // empty until the first checked launch

  std::int64_t bytes() const { return end - begin; }
};

/// Memory for the kernels of any number of launches. Not thread-safe.
class DeviceMemory {
 public:
  /// Throws base::EnvironmentError when there is no address space.
  DeviceMemory();
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  /// A new buffer, filled with 0xFF bytes (a NaN in every format). The host may read and write it whenever no
  /// launch runs. `name` is what findings call it. Throws base::EnvironmentError when memory is exhausted.
  void* allocate(std::int64_t bytes, const std::string& name, Access access = Access::read_write);
  template <class T>
  T* allocate_array(std::int64_t count, const std::string& name, Access access = Access::read_write) {
    return static_cast<T*>(allocate(count * static_cast<std::int64_t>(sizeof(T)), name, access));
  }

  /// Changes what kernels may do with a buffer. Making it `uninitialised` forgets what was written.
  void set_access(const void* buffer, Access access);

  /// Bytes of an `uninitialised` buffer that no kernel has written, in pairs of bytes. Known after checked
  /// launches only: 0 before the first.
  std::int64_t unwritten(const void* buffer) const;

  /// Releases all buffers.
  void clear();

  // ---- for the emulator

  /// The buffer of this page, or null: the address may still be outside [begin, end).
  const Buffer* find(const void* address) const {
    const std::size_t offset = static_cast<std::size_t>(static_cast<const unsigned char*>(address) - arena_);
    if (offset >= used_) return nullptr;
    return buffer_of_page_[offset / kPageBytes];
  }
  bool in_arena(const void* address) const {
    return static_cast<std::size_t>(static_cast<const unsigned char*>(address) - arena_) < kArenaBytes;
  }
  /// The buffer nearest to an address outside all of them, or null.
  const Buffer* nearest(const void* address) const;

  /// Makes read-only buffers unwritable and, for a checked launch, readies the shadow cells.
  void begin_launch(bool checked);
  void end_launch();
  /// The first buffer around which a kernel has written, or null.
  const Buffer* find_damaged_margin() const;

 private:
  static constexpr std::size_t kPageBytes = 4096;
  static constexpr std::size_t kArenaBytes = std::size_t{64} << 30;  // address space only

  Buffer& buffer_at(const void* begin);

  unsigned char* arena_ = nullptr;
  std::size_t used_ = 0;
  std::deque<Buffer> buffers_;  // addresses stay
  std::vector<const Buffer*> buffer_of_page_;
};

}  // namespace fusetune::backend::simt
