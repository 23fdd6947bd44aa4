// --range and --filter: which plans of the space are meant.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "plan/fusion_plan.h"

namespace fusetune::cli {

using PlanFilter = std::function<bool(const plan::FusionPlan&)>;

/// "kernels<=4" (also < = >= >), "handwritten", "has:2-6" (a kernel runs exactly these operators 0 to 14),
/// each with an optional '!' before it. Throws base::UsageError that lists them.
PlanFilter parse_filter(std::string_view text);

/// Mask values [begin, end).
struct MaskRange {
  std::uint32_t begin = 0, end = 65536;
};
/// "A:B"; either may be missing; masks in any notation, B up to 65536. Throws base::UsageError.
MaskRange parse_range(std::string_view text);

/// The distinct plans that masks of the range name, by the first mask that names each.
struct NamedPlan {
  plan::FusionMask mask;
  plan::FusionPlan plan;
};
std::vector<NamedPlan> plans_in(const MaskRange& range);

}  // namespace fusetune::cli
