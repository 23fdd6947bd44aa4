#include "measure/outcome.h"

#include <array>

#include "base/error.h"

namespace fusetune::measure {
namespace {

/// In the order of the enum: the words stored in databases and printed in tables.
constexpr std::array<std::string_view, 10> kNames = {
    "ok",      "noisy",   "illegal",      "compile_failed", "resource_limit", "launch_failed",
    "crashed", "timeout", "wrong_result", "skipped"};

}  // namespace

std::string_view name(Outcome outcome) { return kNames.at(static_cast<std::size_t>(outcome)); }

Outcome parse_outcome(std::string_view text) {
  std::string words;
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == text) return static_cast<Outcome>(i);
    words.append(words.empty() ? "" : ", ").append(kNames[i]);
  }
  throw base::UsageError("unknown outcome '" + std::string(text) + "': expected one of " + words);
}

bool ran_right(Outcome outcome) { return outcome == Outcome::ok || outcome == Outcome::noisy; }

}  // namespace fusetune::measure
