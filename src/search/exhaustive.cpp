#include "search/exhaustive.h"

#include <algorithm>
#include <utility>

#include "search/queue.h"
#include "search/tile_tuning.h"

namespace fusetune::search {
namespace {

constexpr int kPhases = 5, kReferences = 2;  // the phase of the reference plans

std::vector<int> variants_of(const plan::FusionPlan& plan) {
  std::vector<int> indices;
  for (const plan::SegmentVariant& variant : plan.variants()) indices.push_back(plan::variant_index(variant));
  return indices;
}

}  // namespace

Exhaustive::Exhaustive(const Space& space, std::uint64_t seed) : space_(space), random_(seed) {
  for (int variant = 0; variant < plan::kVariantCount; ++variant)
    estimate_ += space_.schedules(variant, {}).size();
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
}

std::optional<std::vector<Candidate>> Exhaustive::rest_after_references() {
  if (phase_ < kReferences || !is_over()) return std::nullopt;
  phase_ = kPhases - 1;
  start_phase();
  std::vector<Candidate> rest = std::move(queue_);
  queue_.clear();
  std::sort(rest.begin(), rest.end());
  return rest;
}

std::vector<Candidate> Exhaustive::ask(int limit) {
  while (is_over() && phase_ + 1 < kPhases) {
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

int Exhaustive::expected() const {
  if (phase_ + 1 == kPhases) return static_cast<int>(asked_.size());
  return static_cast<int>(std::max(estimate_, asked_.size()));
}

std::int64_t Exhaustive::left() const {
  const std::size_t told = asked_.size() - queue_.size() - static_cast<std::size_t>(waiting_);
  return expected() - static_cast<std::int64_t>(told);
}

}  // namespace fusetune::search
