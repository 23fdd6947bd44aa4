// Conversions between float32 and the 16-bit formats, round to nearest even, subnormals kept.
#pragma once

#include <cstdint>
#include <span>

#include "block/problem.h"

namespace fusetune::block {

/// Bits of the nearest IEEE binary16. Magnitudes of 65520 and more become infinity; NaN stays NaN.
std::uint16_t to_f16(float value);
float from_f16(std::uint16_t bits);

/// Bits of the nearest bfloat16. NaN stays NaN.
std::uint16_t to_bf16(float value);
float from_bf16(std::uint16_t bits);

/// The nearest value that `dtype` can hold, as float32.
float round_to(float value, Dtype dtype);
void round_to(std::span<float> values, Dtype dtype);

/// Bytes of one element: 4 or 2.
std::int64_t element_size(Dtype dtype);

/// What a tensor's elements are in memory in a block of `dtype`: float32 for scores, masked_scores and probs.
Dtype stored_as(Tensor tensor, Dtype dtype);

/// Element i of an array of `dtype`; a stored value is rounded.
void store_element(Dtype dtype, void* memory, std::int64_t i, float value);
float load_element(Dtype dtype, const void* memory, std::int64_t i);

}  // namespace fusetune::block
