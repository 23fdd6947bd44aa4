#include "block/parallel.h"

#include <algorithm>
#include <exception>
#include <thread>
#include <vector>

namespace fusetune::block {

void parallel_for(std::int64_t count, std::int64_t grain, int threads,
                  const std::function<void(std::int64_t begin, std::int64_t end)>& work) {
  if (count <= 0) return;
  if (threads <= 0) threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const std::int64_t parts = std::clamp<std::int64_t>(count / std::max<std::int64_t>(grain, 1), 1, threads);
  std::vector<std::exception_ptr> failures(parts);
  const auto run = [&](std::int64_t part) {
    try {
      work(count * part / parts, count * (part + 1) / parts);
    } catch (...) {
      failures[part] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> helpers;
    for (std::int64_t part = 1; part < parts; ++part) helpers.emplace_back(run, part);
    run(0);
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace fusetune::block
