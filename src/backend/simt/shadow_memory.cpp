#include "backend/simt/shadow_memory.h"

#include <sys/mman.h>

#include <string>
#include <utility>

#include "base/error.h"

namespace fusetune::backend::simt {

ShadowRegion::ShadowRegion(std::size_t memory_bytes)
    : count_((memory_bytes + kShadowGranule - 1) / kShadowGranule) {
  void* cells = mmap(nullptr, count_ * sizeof(ShadowCell), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (cells == MAP_FAILED) {
    throw base::EnvironmentError("cannot check a kernel: no memory for " +
                                 std::to_string(count_ * sizeof(ShadowCell) >> 20) +
                                 " MiB of notes on its accesses; use smaller shapes");
  }
  cells_ = static_cast<ShadowCell*>(cells);
}

ShadowRegion::~ShadowRegion() {
  if (cells_ != nullptr) munmap(cells_, count_ * sizeof(ShadowCell));
}

ShadowRegion::ShadowRegion(ShadowRegion&& other) noexcept
    : cells_(std::exchange(other.cells_, nullptr)), count_(std::exchange(other.count_, 0)) {}

ShadowRegion& ShadowRegion::operator=(ShadowRegion&& other) noexcept {
  std::swap(cells_, other.cells_);
  std::swap(count_, other.count_);
  return *this;
}

}  // namespace fusetune::backend::simt
