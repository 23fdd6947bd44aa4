#include "search/exhaustive.h"

#include <algorithm>
#include <utility>

#include "search/queue.h"
#include "search/tile_tuning.h"

namespace fusetune::search {
namespace {

constexpr int kPhases = 5, kOrderedPhase = 3;

std::vector<int> variants_of(const plan::FusionPlan& plan) {
  std::vector<int> indices;
  for (const plan::SegmentVariant& variant : plan.variants()) indices.push_back(plan::variant_index(variant));
  return indices;
}

}  // namespace

Exhaustive::Exhaustive(const Space& space, std::uint64_t seed, std::function<double(const Candidate&)> order)
    : space_(space), random_(seed), order_(std::move(order)) {
  for (int variant = 0; variant < plan::kVariantCount; ++variant) {
    const std::size_t schedules = space_.schedules(variant, {}).size();
    estimate_ += schedules;
    estimate_defaults_ += is_lone_gemm(variant) ? schedules : std::min<std::size_t>(schedules, 1);
  }
  start_phase();
}

std::vector<Candidate> Exhaustive::candidates_of(int variant, const GemmTile& tile, bool only_default) const {
  std::vector<Candidate> candidates;
  for (const lower::AnySchedule& schedule : space_.schedules(variant, tile)) {
    candidates.push_back({variant, schedule});
    if (only_default) break;
  }
  return candidates;
}

std::vector<Candidate> Exhaustive::phase_candidates(int phase) const {
  std::vector<Candidate> candidates;
  const auto add = [&](int variant, const GemmTile& tile, bool only_default) {
    const std::vector<Candidate> more = candidates_of(variant, tile, only_default);
    candidates.insert(candidates.end(), more.begin(), more.end());
  };
  switch (phase) {
    case 0:
      for (const int variant : variants_of(plan::FusionPlan::unfused())) add(variant, {}, true);
      break;
    case 1:
      for (const int op : gemm_operators()) add(lone_variant(op), {}, false);
      break;
    case 2:
      for (const plan::FusionPlan& plan :
           {plan::FusionPlan::byte_transformer(), plan::FusionPlan::all_fused()}) {
        for (const int variant : variants_of(plan)) add(variant, tuned_tile(best_, variant), true);
      }
      break;
    default:
      for (int variant = 0; variant < plan::kVariantCount; ++variant) {
        if (!is_lone_gemm(variant)) add(variant, tuned_tile(best_, variant), phase == 3);
      }
  }
  return candidates;
}

void Exhaustive::start_phase() {
  queue_.clear();
  for (const Candidate& candidate : phase_candidates(phase_)) {
    if (asked_.insert(candidate).second) queue_.push_back(candidate);
  }
  random_.shuffle(queue_);
  if (order_ && phase_ == kOrderedPhase) put_in_order();
}

void Exhaustive::put_in_order() {
  std::vector<std::pair<double, Candidate>> ordered;
  for (const Candidate& candidate : queue_) ordered.emplace_back(order_(candidate), candidate);
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  queue_.clear();
  for (std::size_t begin = 0; begin < ordered.size(); begin += kGroup) {
    std::vector<Candidate> group;
    for (std::size_t i = begin; i < std::min(begin + kGroup, ordered.size()); ++i)
      group.push_back(ordered[i].second);
    random_.shuffle(group);
    queue_.insert(queue_.end(), group.begin(), group.end());
  }
  std::reverse(queue_.begin(), queue_.end());  // the next one is the last
}

std::vector<Candidate> Exhaustive::ask(int limit) {
  while (queue_.empty() && waiting_ == 0 && phase_ + 1 < kPhases) {
    ++phase_;
    start_phase();
  }
  std::vector<Candidate> candidates = take_last(queue_, limit);
  waiting_ += static_cast<int>(candidates.size());
  return candidates;
}

void Exhaustive::tell(const Candidate& candidate, const Trial& trial) {
  --waiting_;
  best_.tell(candidate, trial);
}

bool Exhaustive::in_last_phase() const { return phase_ + 1 == kPhases; }

int Exhaustive::expected() const {
  if (in_last_phase()) return static_cast<int>(asked_.size());
  return static_cast<int>(std::max(estimate_, asked_.size()));
}

std::int64_t Exhaustive::left() const {
  const std::size_t told = asked_.size() - queue_.size() - static_cast<std::size_t>(waiting_);
  return expected() - static_cast<std::int64_t>(told);
}

}  // namespace fusetune::search
