#include "plan/fusion_plan.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>

#include "base/error.h"

namespace fusetune::plan {
namespace {

constexpr int kBorderCount = block::kOperatorCount - 1;
constexpr std::uint16_t kAllBorders = (1u << kBorderCount) - 1;
/// Borders inside the attention core: none of them may be set if one segment is to contain it.
constexpr std::uint16_t kCoreBorders = ((1u << (kCoreLast - kCoreFirst)) - 1) << kCoreFirst;

bool has_border(std::uint16_t borders, int after) { return (borders >> after) & 1; }

std::vector<SegmentVariant> build_variants() {
  std::vector<SegmentVariant> variants;
  for (int first = 0; first < block::kOperatorCount; ++first) {
    for (int last = first; last < block::kOperatorCount; ++last) {
      const Segment segment{first, last};
      variants.push_back({segment, false});
      if (segment.contains_core()) variants.push_back({segment, true});
    }
  }
  return variants;
}

/// Both notations, since masks count positions from 1 and everything else counts operators from 0.
std::string describe(const Segment& segment) {
  return fmt::format("segment of operators {}-{} (mask positions {}-{})", segment.first, segment.last,
                     segment.first + 1, segment.last + 1);
}

void check_encodable(const Segment& segment) {
  const int last_operator = block::kOperatorCount - 1;
  if (segment.first > segment.last)
    throw base::UsageError(fmt::format("{} is reversed: write the lower end first", describe(segment)));
  if (segment.first < 0 || segment.last > last_operator)
    throw base::UsageError(fmt::format("{} is out of range: operators are 0-{}, mask positions 1-{}",
                                       describe(segment), last_operator, last_operator + 1));
  if (segment.size() == 1)
    throw base::UsageError(fmt::format(
        "{} is one operator long: an operator that no segment names runs alone", describe(segment)));
}

}  // namespace

std::string SegmentVariant::to_string() const {
  const std::string star = hand_written ? "*" : "";
  if (segment.size() == 1) return fmt::format("[{}]{}", segment.first, star);
  return fmt::format("[{}-{}]{}", segment.first, segment.last, star);
}

std::span<const SegmentVariant> all_variants() {
  static const std::vector<SegmentVariant> variants = build_variants();
  return variants;
}

int variant_index(const SegmentVariant& variant) {
  const auto variants = all_variants();
  const auto found = std::lower_bound(variants.begin(), variants.end(), variant);
  if (found == variants.end() || *found != variant)
    throw base::InternalError(fmt::format("there is no segment variant {}", variant.to_string()));
  return static_cast<int>(found - variants.begin());
}

FusionPlan::FusionPlan(std::uint16_t borders, bool hand_written)
    : borders_(borders), hand_written_(hand_written && (borders & kCoreBorders) == 0) {
  if (borders & ~kAllBorders)
    throw base::InternalError(fmt::format("borders 0x{:x} past the last operator", borders));
}

FusionPlan FusionPlan::from_mask(FusionMask mask) {
  // Neighbouring positions that differ have a border between them: XOR of the mask with itself, shifted.
  std::uint16_t borders = 0;
  for (int op = 0; op < kBorderCount; ++op)
    if (mask.bit(op + 1) != mask.bit(op + 2)) borders = static_cast<std::uint16_t>(borders | 1u << op);
  return {borders, mask.bit(0) == 1};
}

std::vector<Segment> FusionPlan::segments() const {
  std::vector<Segment> result;
  int first = 0;
  for (int op = 0; op < block::kOperatorCount; ++op) {
    if (op < kBorderCount && !has_border(borders_, op)) continue;
    result.push_back({first, op});
    first = op + 1;
  }
  return result;
}

std::vector<SegmentVariant> FusionPlan::variants() const {
  std::vector<SegmentVariant> result;
  for (const Segment& segment : segments())
    result.push_back({segment, hand_written_ && segment.contains_core()});
  return result;
}

int FusionPlan::kernel_count() const { return std::popcount(borders_) + 1; }

FusionMask FusionPlan::canonical_mask() const {
  unsigned value = hand_written_ ? 1u : 0u;
  unsigned bit = 0;  // position 1
  value <<= 1;
  for (int op = 0; op < kBorderCount; ++op) {
    if (has_border(borders_, op)) bit ^= 1;
    value = value << 1 | bit;
  }
  return {static_cast<std::uint16_t>(value)};
}

std::string FusionPlan::to_string() const {
  std::string text;
  for (const SegmentVariant& variant : variants()) text += variant.to_string();
  return text;
}

FusionPlan FusionPlan::unfused() { return {kAllBorders, false}; }
FusionPlan FusionPlan::all_fused() { return {0, false}; }
FusionPlan FusionPlan::byte_transformer() { return from_mask({48996}); }

const std::vector<FusionPlan>& all_plans() {
  static const std::vector<FusionPlan> plans = [] {
    std::vector<FusionPlan> result;
    result.reserve(kPlanCount);
    for (const unsigned flag : {0u, 0x8000u}) {
      for (unsigned bits = 0; bits < 0x4000u; ++bits) {
        const FusionMask mask{static_cast<std::uint16_t>(flag | bits)};
        const FusionPlan plan = FusionPlan::from_mask(mask);
        if (plan.canonical_mask() == mask) result.push_back(plan);
      }
    }
    return result;
  }();
  return plans;
}

std::string translate(FusionMask mask) {
  std::string fused;
  int count = 0;
  for (const Segment& segment : FusionPlan::from_mask(mask).segments()) {
    if (segment.size() < 2) continue;
    fused += fmt::format(" {} {}", segment.first + 1, segment.last + 1);
    ++count;
  }
  return fmt::format("{} {} {}{}", mask.value, mask.bit(0), count, fused);
}

FusionMask encode(std::span<const Segment> segments, bool hand_written) {
  std::vector<Segment> sorted(segments.begin(), segments.end());
  for (const Segment& segment : sorted) check_encodable(segment);
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t i = 1; i < sorted.size(); ++i)
    if (sorted[i].first <= sorted[i - 1].last)
      throw base::UsageError(fmt::format("{} overlaps {}: an operator runs in one segment only",
                                         describe(sorted[i]), describe(sorted[i - 1])));

  unsigned borders = kAllBorders;
  for (const Segment& segment : sorted)
    for (int op = segment.first; op < segment.last; ++op) borders &= ~(1u << op);
  return FusionPlan(static_cast<std::uint16_t>(borders), hand_written).canonical_mask();
}

}  // namespace fusetune::plan
