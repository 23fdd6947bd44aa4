// What predictions of kernels are worth for choosing plans, every plan taken as the sum of its kernels.
#pragma once

#include <cstddef>
#include <span>

namespace fusetune::model {

/// NaN and false where the kernels make no plan, or are whole plans (variant -1).
struct PlansBySums {
  /// Of the plan that is shortest by the predictions: its measured sum / the least measured sum of any - 1.
  double path_regret;
  /// Rank correlation of predicted and measured sums, over all plans.
  double spearman;
  /// One of the `top` plans shortest by the predictions is tied with the least measured sum of any.
  bool top_holds_best = false;
};

/// Kernels of one problem: `variants` (plan::variant_index()), each with what was predicted of it and what it
/// took. By the predictions a variant runs the kernel predicted fastest, which takes what that took; by the
/// measurements the fastest.
PlansBySums score_plans(std::span<const int> variants, std::span<const double> predicted,
                        std::span<const double> measured, std::size_t top);

}  // namespace fusetune::model
