// Whole-number arithmetic for sizes.
#pragma once

#include <cstdint>

namespace fusetune::base {

/// How many times `d` covers `n`; both not negative, d > 0.
constexpr std::int64_t ceil_div(std::int64_t n, std::int64_t d) { return (n + d - 1) / d; }
/// The smallest multiple of `multiple` that is at least n.
constexpr std::int64_t round_up(std::int64_t n, std::int64_t multiple) {
  return ceil_div(n, multiple) * multiple;
}

}  // namespace fusetune::base
