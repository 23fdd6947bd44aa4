#include "search/selection.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/error.h"
#include "base/tie_band.h"

namespace fusetune::search {

std::span<const ReferencePlan> reference_plans() {
  static const ReferencePlan kPlans[] = {
      {"unfused", plan::FusionPlan::unfused()},
      {"all-fused", plan::FusionPlan::all_fused()},
      {"ByteTransformer", plan::FusionPlan::byte_transformer()},
  };
  return kPlans;
}

std::vector<Finalist> select_finalists(const plan::VariantCosts& costs, int k) {
  const int references = static_cast<int>(reference_plans().size());
  std::vector<Finalist> finalists;
  for (const plan::RankedPlan& ranked :
       plan::cheapest_plans(costs, std::min(k, kMaximumFinalists - references))) {
    finalists.push_back({ranked.plan, ranked.cost, ranked.cost});
  }
  for (const ReferencePlan& reference : reference_plans()) {
    const bool there = std::any_of(finalists.begin(), finalists.end(),
                                   [&](const Finalist& finalist) { return finalist.plan == reference.plan; });
    const double sum = plan::plan_cost(reference.plan, costs);
    if (!there && std::isfinite(sum)) finalists.push_back({reference.plan, sum, sum});
  }
  return finalists;
}

bool is_tied(const Contender& contender) {
  if (!contender.valid) return false;
  const bool includes_one = contender.low <= 1 && 1 <= contender.high;
  return includes_one || std::abs(contender.ratio - 1) <= base::kTieBand;
}

Decision decide(std::span<const Contender> contenders) {
  if (contenders.empty() || !contenders[0].valid) {
    throw base::InternalError("the baseline of a comparison must be a valid plan");
  }
  Decision decision;
  decision.tied.push_back(0);
  for (std::size_t i = 1; i < contenders.size(); ++i) {
    const Contender& contender = contenders[i];
    if (!contender.valid) continue;
    if (is_tied(contender)) {
      decision.tied.push_back(i);
    } else if (contender.ratio < 1 &&
               (!decision.challenger || contender.ratio < contenders[*decision.challenger].ratio)) {
      decision.challenger = i;
    }
  }
  double least = contenders[0].ratio;
  for (const std::size_t i : decision.tied) least = std::min(least, contenders[i].ratio);
  const auto rank = [&](std::size_t i) {
    const Contender& contender = contenders[i];
    return std::tuple(contender.ratio > least * (1 + kSimplerMayLose), contender.plan.kernel_count(),
                      contender.plan.canonical_mask().value);
  };
  std::sort(decision.tied.begin(), decision.tied.end(),
            [&](std::size_t a, std::size_t b) { return rank(a) < rank(b); });
  decision.winner = decision.tied.front();
  return decision;
}

}  // namespace fusetune::search
