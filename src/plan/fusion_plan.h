// Segments, segment variants and canonical plans: what runs, as opposed to what is written.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "block/operators.h"
#include "plan/fusion_mask.h"

namespace fusetune::plan {

inline constexpr int kSegmentCount = 120;
inline constexpr int kVariantCount = 147;
inline constexpr int kSegmentationCount = 16384;
inline constexpr int kPlanCount = 17408;

/// The attention core: operators 2..6 (scores .. merge_heads).
inline constexpr int kCoreFirst = 2;
inline constexpr int kCoreLast = 6;

/// A run of operators [first, last] (operator indices 0..14, inclusive): one kernel launch.
struct Segment {
  int first = 0;
  int last = 0;
  int size() const { return last - first + 1; }
  bool contains(int op) const { return first <= op && op <= last; }
  bool contains_core() const { return first <= kCoreFirst && kCoreLast <= last; }
  auto operator<=>(const Segment&) const = default;
};

/// A segment and, where it contains the attention core, whether the hand-written attention runs it.
struct SegmentVariant {
  Segment segment;
  bool hand_written = false;
  auto operator<=>(const SegmentVariant&) const = default;
  /// "[7-14]" or "[2-6]*" (star: hand-written attention).
  std::string to_string() const;
};

/// All 147 variants, ordered by first, last, hand_written.
std::span<const SegmentVariant> all_variants();
/// Index into all_variants(). Throws base::InternalError for a variant that does not exist.
int variant_index(const SegmentVariant& variant);

/// A canonical plan: a segmentation and the attention flag (false wherever it has no effect).
class FusionPlan {
 public:
  /// Bit o (0..13) of `borders` set: a border between operators o and o + 1. `hand_written` is dropped
  /// where no single segment contains the core.
  FusionPlan(std::uint16_t borders, bool hand_written);
  static FusionPlan from_mask(FusionMask mask);

  std::uint16_t borders() const { return borders_; }
  bool hand_written() const { return hand_written_; }
  /// Segments in order; together they hold every operator once.
  std::vector<Segment> segments() const;
  std::vector<SegmentVariant> variants() const;
  int kernel_count() const;
  /// The mask that names this plan with pos1 = 0.
  FusionMask canonical_mask() const;
  /// "[0-1][2-6]*[7-14]"
  std::string to_string() const;
  auto operator<=>(const FusionPlan&) const = default;

  static FusionPlan unfused();
  static FusionPlan all_fused();
  /// ByteTransformer's partition, mask 48996.
  static FusionPlan byte_transformer();

 private:
  std::uint16_t borders_;
  bool hand_written_;
};

/// All 17,408 plans in ascending order of canonical mask.
const std::vector<FusionPlan>& all_plans();

/// "value pos0 segment_count start1 end1 ...": the research notes' one-line translation, positions as
/// in the mask (operator index + 1), segments of two or more only.
std::string translate(FusionMask mask);

/// Segments (two or more operators each, as *positions* are not used here: operator indices) and the
/// attention flag to the canonical mask. Throws base::UsageError for overlapping, reversed,
/// out-of-range or one-long segments.
FusionMask encode(std::span<const Segment> segments, bool hand_written);

}  // namespace fusetune::plan
