// What a shortest path over predicted times loses against one over measured times.
#pragma once

#include <span>

namespace fusetune::model {

/// Kernels of one problem: `variants` (plan::variant_index()), each with what was predicted of it and what it
/// took. Each variant runs the kernel predicted fastest, the shortest plan over these predictions is taken:
/// its measured sum / the least measured sum of any plan - 1. NaN where the kernels make no plan, or are
/// whole plans (variant -1).
double path_regret(std::span<const int> variants, std::span<const double> predicted,
                   std::span<const double> measured);

}  // namespace fusetune::model
