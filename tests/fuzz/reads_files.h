// Masks of the pattern `file` without a digest read the file they name, which must not be any of this
// machine's.
#pragma once

#include <string_view>

namespace fusetune::fuzz {

inline bool reads_files(std::string_view text) {
  return text.find("file") != std::string_view::npos && text.find("digest=") == std::string_view::npos;
}

}  // namespace fusetune::fuzz
