#include "search/tile_tuning.h"

#include <algorithm>

#include "search/queue.h"
#include "search/random_source.h"

namespace fusetune::search {

std::span<const int> gemm_operators() {
  static constexpr int kGemms[] = {0, 7, 10, 12};
  return kGemms;
}

int lone_variant(int op) { return plan::variant_index({{op, op}, false}); }

bool is_lone_gemm(int variant) {
  const auto gemms = gemm_operators();
  return std::any_of(gemms.begin(), gemms.end(), [&](int op) { return lone_variant(op) == variant; });
}

GemmTile tuned_tile(const Incumbents& best, int variant) {
  const plan::Segment& segment = plan::all_variants()[static_cast<std::size_t>(variant)].segment;
  const Incumbents::Best* tuned = nullptr;
  for (const int op : gemm_operators()) {
    const std::optional<Incumbents::Best>& alone = best.tiled(lone_variant(op));
    if (segment.contains(op) && alone && (tuned == nullptr || alone->time_us > tuned->time_us))
      tuned = &*alone;
  }
  if (tuned == nullptr) return {};
  return gemm_tile(tuned->schedule);
}

TileTuning::TileTuning(const Space& space, std::uint64_t seed) {
  for (const int op : gemm_operators())
    for (const lower::AnySchedule& schedule : space.schedules(lone_variant(op), {}))
      queue_.push_back({lone_variant(op), schedule});
  RandomSource(seed).shuffle(queue_);
  expected_ = static_cast<int>(queue_.size());
}

std::vector<Candidate> TileTuning::ask(int limit) { return take_last(queue_, limit); }

}  // namespace fusetune::search
