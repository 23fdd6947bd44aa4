// The best plans under a table of variant costs: a shortest path over 16 nodes.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "plan/fusion_plan.h"

namespace fusetune::plan {

/// Cost of each variant by variant_index(), any unit; +infinity: not available. Costs are >= 0.
using VariantCosts = std::array<double, kVariantCount>;

struct RankedPlan {
  FusionPlan plan;
  double cost;  // sum of its variants' costs
};

/// The k cheapest distinct plans, ascending; ties by fewer kernels, then by canonical mask. Fewer than k
/// where fewer are finite. Exact: every plan is a path 0 -> 15 whose edges are variants; a plan whose
/// core-containing segment exists twice counts as two paths, any other once.
std::vector<RankedPlan> cheapest_plans(const VariantCosts& costs, int k);

/// Cost of one plan under the table: sum over its variants, in order.
double plan_cost(const FusionPlan& plan, const VariantCosts& costs);

/// Shortest ways over the 16 nodes between operators: node n is before operator n. +infinity: no way.
class PathCosts {
 public:
  explicit PathCosts(const VariantCosts& costs);
  /// From the block's beginning to `node`, 0..15.
  double to(int node) const { return to_[static_cast<std::size_t>(node)]; }
  /// From `node` to the block's end.
  double from(int node) const { return from_[static_cast<std::size_t>(node)]; }

 private:
  std::array<double, 16> to_, from_;
};
}  // namespace fusetune::plan
