#include "backend/cpu/guarded_buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace fusetune::backend::cpu {
namespace {

constexpr std::size_t kGuard = 4096;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kStaggerStep = 320;  // five cache lines
constexpr unsigned kStaggerPlaces = 12;    // within one page of 4 KiB

/// As a float -2.7e-5, as bytes irregular: neither zero nor NaN nor anything that a kernel stores over and
/// over.
constexpr std::array<unsigned char, 4> kPattern = {0xE3, 0x5C, 0xE3, 0xB7};

std::byte* round_up(std::byte* pointer, std::size_t alignment) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  return pointer + ((address + alignment - 1) / alignment * alignment - address);
}

}  // namespace

// The pattern is tied to the distance from `begin`, so begin may be any byte.
void fill_guard(std::byte* begin, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) begin[i] = static_cast<std::byte>(kPattern[i % kPattern.size()]);
}

// A page at a time: byte by byte, the guards of all copies of the weights took a third of a candidate's time.
bool guard_intact(const std::byte* begin, std::size_t bytes) {
  static const std::array<std::byte, kGuard> whole = [] {
    std::array<std::byte, kGuard> page{};
    fill_guard(page.data(), page.size());
    return page;
  }();
  for (std::size_t at = 0; at < bytes; at += whole.size()) {
    if (std::memcmp(begin + at, whole.data(), std::min(whole.size(), bytes - at)) != 0) return false;
  }
  return true;
}

GuardedBuffer::GuardedBuffer(std::size_t bytes, unsigned stagger, const std::string& purpose)
    : bytes_(bytes) {
  const bool huge = bytes >= kHugePage;
  const std::size_t alignment = huge ? kHugePage : 64;
  const std::size_t offset = kStaggerStep * (stagger % kStaggerPlaces);
  mapped_ = kGuard + alignment + offset + bytes + kGuard;
  void* memory = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    throw base::EnvironmentError("cannot allocate " + std::to_string(bytes) + " bytes for " + purpose + ": " +
                                 std::generic_category().message(errno) +
                                 "; use a smaller batch or sequence, or free memory");
  }
  mapping_ = static_cast<std::byte*>(memory);
  data_ = round_up(mapping_ + kGuard, alignment) + offset;
  if (huge) madvise(mapping_, mapped_, MADV_HUGEPAGE);  // advice: refused where there are none
  restore_guards();
}

GuardedBuffer::~GuardedBuffer() {
  if (mapping_ != nullptr) munmap(mapping_, mapped_);
}

GuardedBuffer::GuardedBuffer(GuardedBuffer&& other) noexcept
    : mapping_(std::exchange(other.mapping_, nullptr)),
      mapped_(std::exchange(other.mapped_, 0)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

GuardedBuffer& GuardedBuffer::operator=(GuardedBuffer&& other) noexcept {
  std::swap(mapping_, other.mapping_);
  std::swap(mapped_, other.mapped_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

GuardedBuffer::Damage GuardedBuffer::damage() const {
  const bool before = !guard_intact(data_ - kGuard, kGuard);
  const bool after = !guard_intact(data_ + bytes_, kGuard);
  if (before && after) return Damage::both;
  return before ? Damage::before : after ? Damage::after : Damage::none;
}

void GuardedBuffer::restore_guards() {
  fill_guard(data_ - kGuard, kGuard);
  fill_guard(data_ + bytes_, kGuard);
}

}  // namespace fusetune::backend::cpu
