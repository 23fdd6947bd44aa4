// Contents of a store as text: JSON lines, one row a line, to keep, to send and to read again.
#pragma once

#include <string>
#include <string_view>

#include "store/contents.h"

namespace fusetune::store {

/// The first line says what the file is and its version; then environments, runs, segments, plans and
/// comparisons, which refer to runs by the numbers that the runs' lines have and to plans by their keys. Runs
/// are numbered 1, 2, ... so that equal contents are equal text in whatever store they are.
std::string to_json_lines(const Contents& contents);

/// Reads it again. Throws base::UsageError, "NAME:LINE: what is wrong", for anything that could not be
/// stored: no such kind of line, a value missing or of another type, a time that is not finite and positive,
/// a reference to something that does not come before, a file of a newer version. Of two lines with one key
/// the faster counts; how many lost is added to `duplicates`.
Contents parse_json_lines(std::string_view text, const std::string& name, int& duplicates);

}  // namespace fusetune::store
