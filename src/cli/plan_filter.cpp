#include "cli/plan_filter.h"

#include <fmt/core.h>

#include <algorithm>
#include <bitset>

#include "base/error.h"
#include "base/number.h"

namespace fusetune::cli {
namespace {

[[noreturn]] void refuse_filter(std::string_view text) {
  throw base::UsageError(fmt::format(
      "filter '{}': expected kernels<=N (or < = >= >), handwritten, or has:FIRST-LAST with operators 0 to "
      "14, with ! before it for the opposite",
      text));
}

PlanFilter parse_kernels(std::string_view rest, std::string_view text) {
  const std::size_t digits = rest.find_first_of("0123456789");
  const auto value = digits == std::string_view::npos ? std::nullopt : base::parse_int(rest.substr(digits));
  if (!value) refuse_filter(text);
  const std::string_view relation = rest.substr(0, digits);
  const auto compare = [n = *value](auto relate) {
    return PlanFilter(
        [n, relate](const plan::FusionPlan& plan) { return relate(std::int64_t{plan.kernel_count()}, n); });
  };
  if (relation == "<=") return compare(std::less_equal<>());
  if (relation == "<") return compare(std::less<>());
  if (relation == "=" || relation == "==") return compare(std::equal_to<>());
  if (relation == ">=") return compare(std::greater_equal<>());
  if (relation == ">") return compare(std::greater<>());
  refuse_filter(text);
}

PlanFilter parse_has(std::string_view rest, std::string_view text) {
  const std::size_t dash = rest.find('-');
  const auto first = base::parse_int(rest.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : base::parse_int(rest.substr(dash + 1));
  if (!first || !last || *first < 0 || *last < *first || *last >= block::kOperatorCount) refuse_filter(text);
  const plan::Segment wanted{static_cast<int>(*first), static_cast<int>(*last)};
  return [wanted](const plan::FusionPlan& plan) {
    const std::vector<plan::Segment> segments = plan.segments();
    return std::find(segments.begin(), segments.end(), wanted) != segments.end();
  };
}

std::uint32_t parse_end(std::string_view text, std::uint32_t missing) {
  if (text.empty()) return missing;
  if (text == "65536") return 65536;
  return plan::parse_mask(text).value;
}

}  // namespace

PlanFilter parse_filter(std::string_view text) {
  if (text.starts_with('!')) {
    return [inner = parse_filter(text.substr(1))](const plan::FusionPlan& plan) { return !inner(plan); };
  }
  if (text == "handwritten") return [](const plan::FusionPlan& plan) { return plan.hand_written(); };
  if (text.starts_with("kernels")) return parse_kernels(text.substr(7), text);
  if (text.starts_with("has:")) return parse_has(text.substr(4), text);
  refuse_filter(text);
}

MaskRange parse_range(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos)
    throw base::UsageError(
        fmt::format("range '{}': expected A:B, the masks from A up to but not including B", text));
  const MaskRange range{parse_end(text.substr(0, colon), 0), parse_end(text.substr(colon + 1), 65536)};
  if (range.begin >= range.end)
    throw base::UsageError(
        fmt::format("range '{}' is empty: it holds the masks from A up to but not including B", text));
  return range;
}

std::vector<NamedPlan> plans_in(const MaskRange& range) {
  std::vector<NamedPlan> plans;
  std::bitset<65536> seen;  // canonical masks
  for (std::uint32_t value = range.begin; value < range.end; ++value) {
    const plan::FusionMask mask{static_cast<std::uint16_t>(value)};
    const plan::FusionPlan plan = plan::FusionPlan::from_mask(mask);
    const std::uint16_t canonical = plan.canonical_mask().value;
    if (seen[canonical]) continue;
    seen[canonical] = true;
    plans.push_back({mask, plan});
  }
  return plans;
}

}  // namespace fusetune::cli
