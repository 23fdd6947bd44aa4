// The fast class of a problem's kernels: what a plan near the best could be made of.
#pragma once

#include <cstddef>

#include "plan/fusion_plan.h"
#include "plan/shortest_path.h"

namespace fusetune::search {

/// A kernel is of the fast class when the shortest plan through it takes at most so many times the best.
inline constexpr double kFastClass = 1.03;

/// The shortest plan through a variant that takes `time_us`, by the shortest ways to and from it.
inline double cost_through(const plan::PathCosts& paths, int variant, double time_us) {
  const plan::Segment& segment = plan::all_variants()[static_cast<std::size_t>(variant)].segment;
  return paths.to(segment.first) + time_us + paths.from(segment.last + 1);
}

/// `best_us`: the shortest plan of all, in the unit of `paths`.
inline bool in_fast_class(const plan::PathCosts& paths, int variant, double time_us, double best_us) {
  return cost_through(paths, variant, time_us) <= kFastClass * best_us;
}

}  // namespace fusetune::search
