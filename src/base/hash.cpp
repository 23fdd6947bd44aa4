#include "base/hash.h"

#include <xxhash.h>

#include <array>
#include <new>

namespace fusetune::base {

struct Hasher::Impl {
  Impl() : state(XXH3_createState()) {
    if (state == nullptr) throw std::bad_alloc();
    XXH3_128bits_reset(state);
  }
  ~Impl() { XXH3_freeState(state); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void update(const void* bytes, std::size_t size) { XXH3_128bits_update(state, bytes, size); }

  XXH3_state_t* state;
};

namespace {

// Explicit byte order: a hash that is stored or shared must not depend on the host's.
std::array<unsigned char, 8> little_endian(std::uint64_t number) {
  std::array<unsigned char, 8> bytes{};
  for (auto& byte : bytes) {
    byte = static_cast<unsigned char>(number & 0xff);
    number >>= 8;
  }
  return bytes;
}

}  // namespace

Hasher::Hasher() : impl_(std::make_unique<Impl>()) {}
Hasher::~Hasher() = default;
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;

Hasher& Hasher::add(std::string_view bytes) {
  const auto size = little_endian(bytes.size());
  impl_->update(size.data(), size.size());
  impl_->update(bytes.data(), bytes.size());
  return *this;
}

Hasher& Hasher::add(std::uint64_t number) {
  const auto bytes = little_endian(number);
  return add(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

std::string Hasher::hex() const {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(impl_->state));
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : canonical.digest) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::string hash_hex(std::string_view bytes) { return Hasher().add(bytes).hex(); }

}  // namespace fusetune::base
