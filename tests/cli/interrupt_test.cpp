// Signals to commands that compute and look at nothing meanwhile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "program.h"

namespace fusetune::cli_test {
namespace {

class InterruptedComputation : public testing::TestWithParam<const char*> {};

TEST_P(InterruptedComputation, SaysSoAndLeavesNothingBehind) {
  const std::string recorded = FUSETUNE_SOURCE_DIR "/data/recorded/small-1x64.jsonl.gz";
  const Outcome result =
      shell("mkdir tmp; export TMPDIR=$PWD/tmp\n$FUSETUNE evaluate --strategies all --replay " + recorded +
            " --repeats 1000 >out 2>err &\n"
            "until ls tmp/*/recorded.db >/dev/null 2>&1 || ! kill -0 $!; do sleep 0.05; done\n"
            "kill -" +
            std::string(GetParam()) + " $!; wait $!; echo \"code $?\"; ls tmp; cat err");
  EXPECT_EQ(result.out, "code 130\nfusetune: interrupted\n") << result.err;
}

INSTANTIATE_TEST_SUITE_P(Signals, InterruptedComputation, testing::Values("INT", "TERM", "HUP"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace fusetune::cli_test
