// Numbers to text and back, the same in every locale. Anything that a compiler, a file or another program
// reads must go through here: printf and streams write "1,5" under de_DE.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace fusetune::base {

/// The shortest text that parse_double() reads back to exactly `value`: "0.1", "1e-12", "inf", "nan".
std::string format_shortest(double value);

/// `digits` (0 and up) digits after the point, rounded to nearest: format_fixed(2.5, 3) is "2.500". A value
/// that rounds to zero has no sign.
std::string format_fixed(double value, int digits);

/// The whole of `text` as a number, in the C locale: no surrounding whitespace, no '+', no hexadecimal.
/// "inf" and "nan" are numbers here: callers that need finite ones check. Empty when `text` is anything else
/// or out of double's range.
std::optional<double> parse_double(std::string_view text);

/// A length of time in seconds: a finite number >= 0 in front of ms, s, m or h; without a unit, seconds.
std::optional<double> parse_seconds(std::string_view text);

/// The whole of `text` as a decimal integer: an optional '-' and digits, in range.
std::optional<std::int64_t> parse_int(std::string_view text);

}  // namespace fusetune::base
