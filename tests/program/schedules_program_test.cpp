// Every schedule of every variant against the float64 oracle: what a search may choose, and the default
// lowering.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/program.h"

namespace fusetune::cli_test {
namespace {

constexpr double kTimeoutSeconds = 1780;  // the test has 1800

class EverySchedule : public testing::TestWithParam<const char*> {};

TEST_P(EverySchedule, IsRight) {
  const Outcome run = shell(std::string("FUSETUNE_CACHE_DIR='" KERNEL_TEST_CACHE
                                        "' \"$FUSETUNE\" verify --all-segments --schedules all --layers 1 "
                                        "--mask longformer:global=5,window=7,padding_avg=") +
                                GetParam(),
                            {}, kTimeoutSeconds);
  EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
  EXPECT_THAT(run.err, testing::HasSubstr(" 0 failed"));
}

INSTANTIATE_TEST_SUITE_P(Kernels, EverySchedule,
                         testing::Values("25 --batch 2 --seq 33 --heads 3 --head-size 40",
                                         "49 --batch 1 --seq 65 --heads 2 --head-size 63",
                                         "25 --batch 2 --seq 33 --heads 3 --head-size 40 --isa generic"));

}  // namespace
}  // namespace fusetune::cli_test
