// What a fuzz target is made of: LLVMFuzzerTestOneInput(), which feeds one input to one reader, and
// fuzz_seeds().
//
// A reader may refuse an input by the project's own exceptions. Anything else that leaves it ends the
// process, and so does require() where what was read does not read back as the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace fusetune::fuzz {

/// Valid inputs, which mutations start from.
std::vector<std::string> fuzz_seeds();

/// Longer inputs are cut: a reader's memory is to be bounded by what it is given.
inline constexpr std::size_t kLongestInput = 64 << 10;

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size < kLongestInput ? size : kLongestInput};
}

inline void require(bool holds, std::string_view what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %.*s\n", static_cast<int>(what.size()), what.data());
  std::abort();
}

/// What `read` returns, or nothing where it refuses. An InternalError is no refusal but a bug.
template <typename Read>
auto accepted(Read read) -> std::optional<decltype(read())> {
  try {
    return read();
  } catch (const base::UsageError&) {
  } catch (const base::EnvironmentError&) {
  }
  return std::nullopt;
}

}  // namespace fusetune::fuzz
