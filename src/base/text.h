// Small text helpers that the standard library lacks.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fusetune::base {

/// `text` without leading and trailing spaces, tabs, '\r', '\n', '\v' and '\f'. Points into `text`.
std::string_view trim(std::string_view text);

/// `text` behind the UTF-8 byte order mark that some editors begin a file with. Points into `text`.
std::string_view without_byte_order_mark(std::string_view text);

/// The fields between separators, empty ones kept: split("a,,b", ',') is {"a", "", "b"}; split("", ',') is
/// {""}.
std::vector<std::string> split(std::string_view text, char separator);

/// `word` as one word of a POSIX shell: itself where that is safe, else in single quotes.
std::string quote_for_shell(std::string_view word);

/// `word` as it may stand in a message, in single quotes: of a long one its first 40 bytes, less a character
/// cut by that; control characters as '?'.
std::string quote_for_message(std::string_view word);

/// The candidate that `word` most likely meant: fewest edits (insert, delete, replace, swap of neighbours),
/// letter case aside, at most a third of the word's length and at least one. Empty when nothing is that near;
/// the first of equals.
std::string nearest(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace fusetune::base
