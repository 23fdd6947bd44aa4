// Plans as paths. Node n stands before operator n; a variant of segment [i, j] is an edge i -> j + 1; a plan
// is a path from 0 to 15, and each plan is exactly one path. Edges only lead forward, so one pass in node
// order is enough.
//
// Two steps keep the answer exact even where rounding makes two sums equal. Pruning prefixes by their own
// cost would be wrong there: a prefix that is dearer by less than the last digit of the total may tie in the
// end and win by having fewer kernels.
//   1. the k smallest path costs per node give the k-th smallest total, a bound;
//   2. every path whose prefix plus the cheapest rest stays within the bound is listed, sorted and cut to k.
#include "plan/shortest_path.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "base/error.h"

namespace fusetune::plan {
namespace {

constexpr int kLastNode = block::kOperatorCount;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// Sums of at most 15 terms in different orders differ by less than this, relatively.
constexpr double kRoundingSlack = 1e-14;

struct Edge {
  int to;
  bool hand_written;
  double cost;
};
using Edges = std::array<std::vector<Edge>, kLastNode>;

Edges available_edges(const VariantCosts& costs) {
  Edges edges;
  for (int i = 0; i < kVariantCount; ++i) {
    const SegmentVariant& variant = all_variants()[i];
    const double cost = costs[static_cast<std::size_t>(i)];
    if (std::isnan(cost) || cost < 0)
      throw base::InternalError(
          fmt::format("the cost of variant {} is {}, not >= 0", variant.to_string(), cost));
    if (std::isfinite(cost))
      edges[variant.segment.first].push_back({variant.segment.last + 1, variant.hand_written, cost});
  }
  return edges;
}

/// Cost of the cheapest path from each node to the last.
std::array<double, kLastNode + 1> cheapest_rest(const Edges& edges) {
  std::array<double, kLastNode + 1> rest;
  rest.fill(kInfinity);
  rest[kLastNode] = 0;
  for (int node = kLastNode - 1; node >= 0; --node)
    for (const Edge& edge : edges[node]) rest[node] = std::min(rest[node], edge.cost + rest[edge.to]);
  return rest;
}

/// The k-th smallest path cost; infinity where there are fewer paths.
double kth_cost(const Edges& edges, std::size_t k) {
  std::array<std::vector<double>, kLastNode + 1> costs;
  costs[0] = {0};
  for (int node = 0; node < kLastNode; ++node) {
    std::sort(costs[node].begin(), costs[node].end());
    if (costs[node].size() > k) costs[node].resize(k);
    for (const Edge& edge : edges[node])
      for (const double cost : costs[node]) costs[edge.to].push_back(cost + edge.cost);
  }
  std::vector<double>& totals = costs[kLastNode];
  if (totals.size() < k) return kInfinity;
  std::nth_element(totals.begin(), totals.begin() + static_cast<std::ptrdiff_t>(k - 1), totals.end());
  return totals[k - 1];
}

/// Lists every path that costs at most `bound`, depth first.
class PathLister {
 public:
  PathLister(const Edges& edges, double bound) : edges_(edges), rest_(cheapest_rest(edges)), bound_(bound) {}

  std::vector<RankedPlan> list() && {
    visit(0, 0, 0, false);
    return std::move(found_);
  }

 private:
  void visit(int node, double cost, unsigned borders, bool hand_written) {
    const double least_total = cost + rest_[node];
    if (!std::isfinite(least_total) || least_total > bound_) return;
    if (node == kLastNode) {
      found_.push_back({FusionPlan(static_cast<std::uint16_t>(borders), hand_written), cost});
      return;
    }
    const unsigned with_border = node == 0 ? borders : borders | 1u << (node - 1);
    for (const Edge& edge : edges_[node])
      visit(edge.to, cost + edge.cost, with_border, hand_written || edge.hand_written);
  }

  const Edges& edges_;
  const std::array<double, kLastNode + 1> rest_;
  const double bound_;
  std::vector<RankedPlan> found_;
};

bool ranks_before(const RankedPlan& a, const RankedPlan& b) {
  return std::tuple(a.cost, a.plan.kernel_count(), a.plan.canonical_mask().value) <
         std::tuple(b.cost, b.plan.kernel_count(), b.plan.canonical_mask().value);
}

}  // namespace

std::vector<RankedPlan> cheapest_plans(const VariantCosts& costs, int k) {
  if (k <= 0) return {};
  const Edges edges = available_edges(costs);
  const double bound = kth_cost(edges, static_cast<std::size_t>(k)) * (1 + kRoundingSlack);
  std::vector<RankedPlan> plans = PathLister(edges, bound).list();
  std::sort(plans.begin(), plans.end(), ranks_before);
  if (plans.size() > static_cast<std::size_t>(k)) plans.erase(plans.begin() + k, plans.end());
  return plans;
}

double plan_cost(const FusionPlan& plan, const VariantCosts& costs) {
  double cost = 0;
  for (const SegmentVariant& variant : plan.variants())
    cost += costs[static_cast<std::size_t>(variant_index(variant))];
  return cost;
}

PathCosts::PathCosts(const VariantCosts& costs) {
  to_.fill(std::numeric_limits<double>::infinity());
  from_.fill(std::numeric_limits<double>::infinity());
  to_.front() = from_.back() = 0;
  const auto variants = all_variants();
  // Ordered by first operator: every way to a segment's beginning is known when it is met.
  for (std::size_t i = 0; i < variants.size(); ++i) {
    const auto [first, last] = variants[i].segment;
    double& end = to_[static_cast<std::size_t>(last) + 1];
    end = std::min(end, to_[static_cast<std::size_t>(first)] + costs[i]);
  }
  for (std::size_t i = variants.size(); i-- > 0;) {
    const auto [first, last] = variants[i].segment;
    double& begin = from_[static_cast<std::size_t>(first)];
    begin = std::min(begin, costs[i] + from_[static_cast<std::size_t>(last) + 1]);
  }
}

}  // namespace fusetune::plan
