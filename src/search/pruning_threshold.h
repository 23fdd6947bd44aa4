// Below which probability of the fast class a candidate is pruned, so that the winner is with a stated
// chance.
#pragma once

#include <vector>

namespace fusetune::search {

struct PruningThreshold {
  /// Candidates less probable than this are pruned; never above 0.5.
  double probability = 0.5;
  /// A candidate of the fast class, and the winner is one, is pruned with this chance at most. 1: not known.
  double chance = 1;
  int fast = 0;  // candidates of the fast class behind it

  /// What is aimed at; with fewer than 19 of them the chance is 1 / (fast + 1).
  static constexpr double kMiss = 0.05;
};

/// `probabilities`: of candidates of the fast class, each by a model that had not seen it. The threshold is
/// the j-th smallest of them, j = kMiss * (n + 1) rounded down and at least 1. One more such candidate is as
/// likely to have any rank among the n + 1, so that it is below the threshold with a chance of at most j / (n
/// + 1): a conformal limit (Vovk, Gammerman, Shafer, Algorithmic Learning in a Random World, 2005). Two
/// things make it an approximation: the model in use has seen all candidates, those behind the probabilities
/// four fifths of them each, and what a search has not timed is like what it has only as far as it was drawn
/// from it (pruning_audit.h looks at what was left out itself).
PruningThreshold choose_threshold(std::vector<double> probabilities);

}  // namespace fusetune::search
