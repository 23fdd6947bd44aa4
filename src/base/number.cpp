#include "base/number.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>
#include <utility>

namespace fusetune::base {

std::string format_shortest(double value) {
  std::array<char, 32> buffer{};  // the longest is "-2.2250738585072014e-308"
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return {buffer.data(), end};
}

std::string format_fixed(double value, int digits) {
  digits = std::max(digits, 0);
  // Sign, all digits of the largest double, point, the digits after it.
  std::string text(static_cast<std::size_t>(std::numeric_limits<double>::max_exponent10 + digits + 4), '\0');
  const auto [end, error] =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed, digits);
  text.resize(static_cast<std::size_t>(end - text.data()));
  const bool is_zero = text.find_first_not_of("-0.") == std::string::npos;
  return is_zero && text.front() == '-' ? text.substr(1) : text;
}

namespace {

template <typename T>
std::optional<T> parse_whole(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::optional<double> parse_double(std::string_view text) { return parse_whole<double>(text); }

std::optional<double> parse_seconds(std::string_view text) {
  static constexpr std::array<std::pair<std::string_view, double>, 4> kUnits = {
      {{"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}}};
  double scale = 1;
  for (const auto& [unit, seconds] : kUnits) {
    if (!text.ends_with(unit)) continue;
    text.remove_suffix(unit.size());
    scale = seconds;
    break;
  }
  const std::optional<double> number = parse_double(text);
  if (!number || !std::isfinite(*number * scale) || *number < 0) return std::nullopt;
  return *number * scale;
}

std::optional<std::int64_t> parse_int(std::string_view text) { return parse_whole<std::int64_t>(text); }

}  // namespace fusetune::base
