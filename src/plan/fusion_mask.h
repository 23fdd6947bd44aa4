// The 16-bit fusion mask as people write it. pos0 is the most significant bit.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace fusetune::plan {

struct FusionMask {
  std::uint16_t value = 0;

  /// Bit at position p in 0..15; position 0 is the attention flag, p in 1..15 belongs to operator p - 1.
  int bit(int position) const { return (value >> (15 - position)) & 1; }
  /// Sixteen characters of 0 and 1.
  std::string to_binary() const;
  bool operator==(const FusionMask&) const = default;
};

/// Decimal 0|[1-9][0-9]{0,4} up to 65535, sixteen binary digits, 0b + sixteen, or 0x + one to four hex
/// digits; nothing else. Throws base::UsageError that says what was expected.
FusionMask parse_mask(std::string_view text);

}  // namespace fusetune::plan
