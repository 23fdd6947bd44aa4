// Columns that UTF-8 text takes in a terminal, for the characters fusetune writes (all one column wide).
#pragma once

#include <algorithm>
#include <string_view>

namespace fusetune::report {

/// Number of code points: bytes that do not continue a character.
inline std::size_t text_width(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

}  // namespace fusetune::report
