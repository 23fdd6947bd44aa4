// Content hashes for cache keys, source hashes and fingerprints.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace fusetune::base {

/// XXH3-128 over a sequence of fields. Every field is added with its length, so that ("ab", "c") and
/// ("a", "bc") differ. The same fields give the same hash on every machine and in every version.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;

  Hasher& add(std::string_view bytes);
  Hasher& add(std::uint64_t number);
  /// A double would silently become an integer: add format_shortest() of it instead.
  template <std::floating_point T>
  Hasher& add(T) = delete;

  /// 32 lower-case hexadecimal digits over what was added so far; more may be added afterwards.
  std::string hex() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Hasher().add(bytes).hex().
std::string hash_hex(std::string_view bytes);

}  // namespace fusetune::base
