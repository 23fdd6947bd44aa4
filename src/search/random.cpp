#include "search/random.h"

#include "search/random_source.h"

namespace fusetune::search {

RandomPlans::RandomPlans(const PlanSpace& space, std::uint64_t seed)
    : plans_(static_cast<std::int64_t>(space.plans.size())), left_(space.plans.begin(), space.plans.end()) {
  RandomSource(seed).shuffle(left_);
}

std::vector<PlanCandidate> RandomPlans::ask(int limit) {
  std::vector<PlanCandidate> candidates;
  while (!left_.empty() && static_cast<int>(candidates.size()) < limit) {
    candidates.push_back({left_.back(), true});
    left_.pop_back();
  }
  return candidates;
}

}  // namespace fusetune::search
