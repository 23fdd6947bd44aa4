// Splits a range of independent items over threads.
#pragma once

#include <cstdint>
#include <functional>

namespace fusetune::block {

/// Calls work(begin, end) for disjoint ranges that together are [0, count), each of at least `grain` items
/// (but the last), on up to `threads` threads (0: all CPUs of this process). The first exception thrown by
/// `work` leaves here, after every thread has ended.
void parallel_for(std::int64_t count, std::int64_t grain, int threads,
                  const std::function<void(std::int64_t begin, std::int64_t end)>& work);

}  // namespace fusetune::block
