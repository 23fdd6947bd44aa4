#include "plan/fusion_mask.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/error.h"
#include "base/text.h"

namespace fusetune::plan {
namespace {

constexpr std::string_view kExpected =
    "expected a decimal from 0 to 65535 without sign or leading zeros, sixteen binary digits (with or "
    "without "
    "0b), or 0x and one to four hexadecimal digits";

bool only(std::string_view text, std::string_view alphabet) {
  return text.find_first_not_of(alphabet) == std::string_view::npos;
}

/// The whole of `text` in `base`; the caller has checked length and alphabet, so only range can fail.
std::optional<std::uint16_t> to_value(std::string_view text, int base) {
  std::uint16_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<std::uint16_t> parse_value(std::string_view text) {
  if (text.starts_with("0x")) {
    const std::string_view digits = text.substr(2);
    if (digits.empty() || digits.size() > 4 || !only(digits, "0123456789abcdefABCDEF")) return std::nullopt;
    return to_value(digits, 16);
  }
  const std::string_view digits = text.starts_with("0b") ? text.substr(2) : text;
  if (digits.size() == 16 && only(digits, "01")) return to_value(digits, 2);
  if (digits.size() != text.size() || text.empty() || text.size() > 5 || !only(text, "0123456789"))
    return std::nullopt;
  if (text.size() > 1 && text.front() == '0') return std::nullopt;
  return to_value(text, 10);
}

}  // namespace

std::string FusionMask::to_binary() const {
  std::string text(16, '0');
  for (int position = 0; position < 16; ++position)
    if (bit(position)) text[static_cast<std::size_t>(position)] = '1';
  return text;
}

FusionMask parse_mask(std::string_view text) {
  if (const auto value = parse_value(text)) return FusionMask{*value};
  throw base::UsageError(
      fmt::format("{} is not a fusion mask: {}", base::quote_for_message(text), kExpected));
}

}  // namespace fusetune::plan
