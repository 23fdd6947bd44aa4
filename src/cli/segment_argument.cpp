#include "cli/segment_argument.h"

#include <fmt/core.h>

#include <optional>

#include "base/error.h"
#include "base/number.h"
#include "block/operators.h"

namespace fusetune::cli {
namespace {

std::optional<int> parse_position(std::string_view text) {
  const auto value = base::parse_int(text);
  if (!value || *value < 0 || *value > 9999 || text.empty() || text.front() == '-') return std::nullopt;
  return static_cast<int>(*value);
}

}  // namespace

plan::Segment parse_segment(std::string_view text) {
  const std::size_t dash = text.find('-');
  if (dash != std::string_view::npos) {
    const auto first = parse_position(text.substr(0, dash));
    const auto last = parse_position(text.substr(dash + 1));
    const bool possible = first && last && *first >= 1 && *last <= block::kOperatorCount && *first <= *last;
    if (possible) return {*first - 1, *last - 1};
  }
  throw base::UsageError(
      fmt::format("segment '{}': expected FIRST-LAST with mask positions 1 to 15, e.g. 3-7", text));
}

plan::SegmentVariant parse_variant(std::string_view text) {
  for (const plan::SegmentVariant& variant : plan::all_variants())
    if (variant.to_string() == text) return variant;
  throw base::UsageError(
      fmt::format("'{}' is no segment variant: expected [FIRST-LAST] with operators 0 to 14, or "
                  "[FIRST-LAST]* around [2-6]",
                  text));
}

}  // namespace fusetune::cli
