#include "block/rounding.h"

#include <bit>

namespace fusetune::block {

std::uint16_t to_f16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u);   // NaN
  if (magnitude >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);  // >= 65520: infinity
  if (magnitude < 0x38800000u) {
    // Below 2^-14: binary16 is a multiple of 2^-24. Adding 0.5, whose last place is 2^-24, rounds to one.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u));
  }
  // Rebias the exponent by 127 - 15 and drop 13 bits of fraction; a carry moves into the exponent.
  const std::uint32_t odd = (magnitude >> 13) & 1u;
  return static_cast<std::uint16_t>(sign | ((magnitude - (112u << 23) + 0xfffu + odd) >> 13));
}

float from_f16(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fu;
  const std::uint32_t fraction = bits & 0x3ffu;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
  }
  const std::uint32_t rebiased = exponent == 0x1f ? 0xffu : exponent + 112u;
  return std::bit_cast<float>(sign | (rebiased << 23) | (fraction << 13));
}

std::uint16_t to_bf16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

float from_bf16(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

float round_to(float value, Dtype dtype) {
  switch (dtype) {
    case Dtype::f32:
      return value;
    case Dtype::f16:
      return from_f16(to_f16(value));
    case Dtype::bf16:
      return from_bf16(to_bf16(value));
  }
  return value;
}

void round_to(std::span<float> values, Dtype dtype) {
  if (dtype == Dtype::f32) return;
  for (float& value : values) value = round_to(value, dtype);
}

std::int64_t element_size(Dtype dtype) { return dtype == Dtype::f32 ? 4 : 2; }

Dtype stored_as(Tensor tensor, Dtype dtype) {
  const bool scores = tensor == Tensor::scores || tensor == Tensor::masked_scores || tensor == Tensor::probs;
  return scores ? Dtype::f32 : dtype;
}

void store_element(Dtype dtype, void* memory, std::int64_t i, float value) {
  if (dtype == Dtype::f32)
    static_cast<float*>(memory)[i] = value;
  else
    static_cast<std::uint16_t*>(memory)[i] = dtype == Dtype::f16 ? to_f16(value) : to_bf16(value);
}

float load_element(Dtype dtype, const void* memory, std::int64_t i) {
  if (dtype == Dtype::f32) return static_cast<const float*>(memory)[i];
  const std::uint16_t bits = static_cast<const std::uint16_t*>(memory)[i];
  return dtype == Dtype::f16 ? from_f16(bits) : from_bf16(bits);
}

}  // namespace fusetune::block
