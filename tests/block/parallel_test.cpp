#include "block/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <vector>

namespace fusetune::block {
namespace {

TEST(ParallelFor, CoversEveryItemOnce) {
  for (const std::int64_t count : {0, 1, 2, 7, 100}) {
    for (const int threads : {1, 2, 5, 0}) {
      std::vector<std::atomic<int>> visits(count);
      parallel_for(count, 3, threads, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) ++visits[i];
      });
      for (const auto& visit : visits) ASSERT_EQ(visit, 1) << count << " items, " << threads << " threads";
    }
  }
}

TEST(ParallelFor, RangesHoldAtLeastTheGrain) {
  std::atomic<int> calls = 0;
  parallel_for(10, 4, 8, [&](std::int64_t begin, std::int64_t end) {
    ++calls;
    EXPECT_GE(end - begin, 4);
  });
  EXPECT_EQ(calls, 2);
}

TEST(ParallelFor, AnExceptionOfAnyThreadLeaves) {
  EXPECT_THROW(parallel_for(100, 1, 4,
                            [](std::int64_t, std::int64_t end) {
                              if (end == 100) throw std::runtime_error("last part");
                            }),
               std::runtime_error);
}

}  // namespace
}  // namespace fusetune::block
