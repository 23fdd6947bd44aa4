// Memory that notices writes past its ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace fusetune::backend::cpu {

/// `bytes` bytes between two guards of 4 KiB each, filled with a pattern that no computation writes. The
/// upper guard begins at the very byte after the last. The start is 64-byte aligned; its place within a page
/// varies with `stagger`, so that streams over several buffers do not compete for the same cache sets. Large
/// buffers ask for huge pages. Fresh memory is zero.
class GuardedBuffer {
 public:
  /// `purpose` names the buffer in errors: "tensor scores". Throws base::EnvironmentError when memory is
  /// short.
  GuardedBuffer(std::size_t bytes, unsigned stagger, const std::string& purpose);
  ~GuardedBuffer();
  GuardedBuffer(GuardedBuffer&& other) noexcept;
  GuardedBuffer& operator=(GuardedBuffer&& other) noexcept;

  std::byte* data() const { return data_; }
  float* floats() const { return reinterpret_cast<float*>(data_); }
  std::size_t bytes() const { return bytes_; }

  enum class Damage { none, before, after, both };
  Damage damage() const;
  /// Makes the guards whole again.
  void restore_guards();

 private:
  std::byte* mapping_ = nullptr;  // what munmap gets
  std::size_t mapped_ = 0;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Guard pattern for other gaps: fills, and checks, `bytes` bytes from `begin`.
void fill_guard(std::byte* begin, std::size_t bytes);
bool guard_intact(const std::byte* begin, std::size_t bytes);

}  // namespace fusetune::backend::cpu
