// Candidates that a strategy has decided on and not yet handed out, next one last.
#pragma once

#include <vector>

namespace fusetune::search {

/// Takes up to `limit` from the end of `queue`, the last one first.
template <class T>
std::vector<T> take_last(std::vector<T>& queue, int limit) {
  std::vector<T> taken;
  while (!queue.empty() && static_cast<int>(taken.size()) < limit) {
    taken.push_back(queue.back());
    queue.pop_back();
  }
  return taken;
}

}  // namespace fusetune::search
