#include "search/pruning_threshold.h"

#include <algorithm>
#include <cstddef>

namespace fusetune::search {

PruningThreshold choose_threshold(std::vector<double> probabilities) {
  PruningThreshold result;
  result.fast = static_cast<int>(probabilities.size());
  if (probabilities.empty()) return result;
  const auto ranks = static_cast<double>(probabilities.size() + 1);
  const auto rank = std::max<std::size_t>(1, static_cast<std::size_t>(PruningThreshold::kMiss * ranks));
  std::sort(probabilities.begin(), probabilities.end());
  result.probability = std::min(result.probability, probabilities[rank - 1]);
  result.chance = static_cast<double>(rank) / ranks;
  return result;
}

}  // namespace fusetune::search
