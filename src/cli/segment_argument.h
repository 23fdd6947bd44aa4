// Segments as the user writes them: "3-7", mask positions 1 to 15, both ends included.
#pragma once

#include <string_view>

#include "plan/fusion_plan.h"

namespace fusetune::cli {

/// Positions to operator indices; the ends are not checked against the block. Throws base::UsageError unless
/// it is two whole numbers with a '-' between.
plan::Segment parse_segment(std::string_view text);

/// "[7-14]" or "[2-6]*", operators 0 to 14, as SegmentVariant::to_string() writes it. Throws
/// base::UsageError.
plan::SegmentVariant parse_variant(std::string_view text);

}  // namespace fusetune::cli
