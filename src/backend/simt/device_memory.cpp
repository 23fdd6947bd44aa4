#include "backend/simt/device_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/error.h"

namespace fusetune::backend::simt {
namespace {

constexpr int kPoison = 0xFF;
constexpr std::size_t kAlignment = 256;

std::size_t round_up(std::size_t value, std::size_t unit) { return (value + unit - 1) / unit * unit; }

bool untouched(const unsigned char* begin, const unsigned char* end) {
  return std::all_of(begin, end, [](unsigned char byte) { return byte == kPoison; });
}

}  // namespace

DeviceMemory::DeviceMemory() {
  void* arena = mmap(nullptr, kArenaBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (arena == MAP_FAILED) {
    throw base::EnvironmentError("cannot reserve " + std::to_string(kArenaBytes >> 30) +
                                 " GiB of addresses for the emulator's memory: " +
                                 std::generic_category().message(errno) + "; raise `ulimit -v`");
  }
  arena_ = static_cast<unsigned char*>(arena);
  clear();
}

DeviceMemory::~DeviceMemory() { munmap(arena_, kArenaBytes); }

void* DeviceMemory::allocate(std::int64_t bytes, const std::string& name, Access access) {
  if (bytes < 0) throw base::InternalError("negative size of buffer '" + name + "'");
  const std::size_t padded = round_up(std::max<std::size_t>(static_cast<std::size_t>(bytes), 1), kAlignment);
  const std::size_t mapped = round_up(padded, kPageBytes);
  unsigned char* const pages = arena_ + used_;
  if (used_ + mapped + kPageBytes > kArenaBytes || mprotect(pages, mapped, PROT_READ | PROT_WRITE) != 0) {
    throw base::EnvironmentError("cannot allocate " + std::to_string(bytes) + " bytes for '" + name +
                                 "' in the emulator: memory is exhausted; use smaller shapes");
  }
  std::memset(pages, kPoison, mapped);
  Buffer buffer;
  buffer.pages_begin = pages;
  buffer.pages_end = pages + mapped;
  buffer.begin = buffer.pages_end - padded;
  buffer.end = buffer.begin + bytes;
  buffer.name = name;
  buffer.access = access;
  buffers_.push_back(std::move(buffer));
  used_ += mapped + kPageBytes;  // the page after it stays inaccessible
  buffer_of_page_.resize(used_ / kPageBytes, nullptr);
  std::fill_n(buffer_of_page_.end() - static_cast<std::ptrdiff_t>(mapped / kPageBytes + 1),
              mapped / kPageBytes, &buffers_.back());
  return buffers_.back().begin;
}

Buffer& DeviceMemory::buffer_at(const void* begin) {
  for (Buffer& buffer : buffers_) {
    if (buffer.begin == begin) return buffer;
  }
  throw base::InternalError("no buffer of the emulator begins at this address");
}

void DeviceMemory::set_access(const void* buffer, Access access) {
  Buffer& found = buffer_at(buffer);
  found.access = access;
  if (access == Access::uninitialised) found.shadow = ShadowRegion();
}

std::int64_t DeviceMemory::unwritten(const void* buffer) const {
  const Buffer& found = const_cast<DeviceMemory*>(this)->buffer_at(buffer);
  if (found.access != Access::uninitialised || !found.shadow) return 0;
  const ShadowCell* const cells = found.shadow.cells();
  const auto count = std::count_if(cells, cells + found.shadow.size(),
                                   [](const ShadowCell& cell) { return cell.write == 0; });
  return std::min<std::int64_t>(count * static_cast<std::int64_t>(kShadowGranule), found.bytes());
}

void DeviceMemory::clear() {
  if (used_ > 0) {
    mprotect(arena_, used_, PROT_NONE);
    madvise(arena_, used_, MADV_DONTNEED);
  }
  buffers_.clear();
  buffer_of_page_.assign(1, nullptr);
  used_ = kPageBytes;  // nothing before the first buffer either
}

const Buffer* DeviceMemory::nearest(const void* address) const {
  const auto* const at = static_cast<const unsigned char*>(address);
  const Buffer* best = nullptr;
  std::ptrdiff_t best_distance = 0;
  for (const Buffer& buffer : buffers_) {
    const std::ptrdiff_t distance = at >= buffer.end ? at - buffer.end : buffer.begin - at;
    if (best != nullptr && distance >= best_distance) continue;
    best = &buffer;
    best_distance = distance;
  }
  return best;
}

namespace {

/// A new launch is ordered after everything before it: what was written is the host's, nothing was read.
void forget_threads(Buffer& buffer) {
  const bool is_new = !buffer.shadow;
  if (is_new) buffer.shadow = ShadowRegion(static_cast<std::size_t>(buffer.bytes()));
  const bool initialised = buffer.access != Access::uninitialised;
  if (is_new && !initialised) return;
  ShadowCell* const cells = buffer.shadow.cells();
  for (std::size_t i = 0; i < buffer.shadow.size(); ++i) {
    cells[i] = {initialised || cells[i].write != 0 ? stamp::kHost : 0, 0, 0};
  }
}

void protect(const Buffer& buffer, int protection) {
  mprotect(buffer.pages_begin, static_cast<std::size_t>(buffer.pages_end - buffer.pages_begin), protection);
}

}  // namespace

void DeviceMemory::begin_launch(bool checked) {
  for (Buffer& buffer : buffers_) {
    if (buffer.access == Access::read_only) {
      protect(buffer, PROT_READ);
    } else if (checked && buffer.bytes() > 0) {
      forget_threads(buffer);
    }
  }
}

void DeviceMemory::end_launch() {
  for (const Buffer& buffer : buffers_) {
    if (buffer.access == Access::read_only) protect(buffer, PROT_READ | PROT_WRITE);
  }
}

const Buffer* DeviceMemory::find_damaged_margin() const {
  for (const Buffer& buffer : buffers_) {
    if (!untouched(buffer.pages_begin, buffer.begin) || !untouched(buffer.end, buffer.pages_end)) {
      return &buffer;
    }
  }
  return nullptr;
}

}  // namespace fusetune::backend::simt
