// tools/record_data on a tiny problem: stopped, it goes on; what the database has of other settings is no
// plan of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "../cli/program.h"
#include "base/text.h"

namespace fusetune {
namespace {

using cli_test::Outcome;

const std::string kProblem =
    " --batch 1 --seq 16 --heads 2 --head-size 8 --ffn 32 --layers 2 --isa generic --threads 1 --min-time "
    "0.02"
    " --pairs 20 --finalists 2";
constexpr int kPlans = 4, kStops = 3;

class RecordData : public testing::Test {
 protected:
  Outcome run(const std::string& script) const {
    return cli_test::shell(
        "export FUSETUNE_CACHE_DIR='" SEARCH_TEST_CACHE "' FUSETUNE_PROGRAM=\"$FUSETUNE\"; " + script,
        directory_.path());
  }
  std::string recorded(const std::string& file) const {
    return "'" FUSETUNE_SOURCE_DIR "/tools/record_data' tiny --samples 3" + kProblem + " --plans " +
           std::to_string(kPlans) + " --db \"$PWD/tiny.db\" --out \"$PWD/" + file + "\"";
  }
  /// Lines of measurements of the tool's own settings that have a time.
  std::set<std::string> measured(const std::string& print) const {
    std::set<std::string> lines;
    for (const std::string& line : base::split(run(print).out, '\n'))
      if (line.find("\"settings\":\"samples=3 ") != std::string::npos &&
          line.find("\"outcome\":\"ok\"") != std::string::npos)
        lines.insert(line);
    return lines;
  }

  base::TemporaryDirectory directory_;
};

TEST_F(RecordData, GoesOnWhereItWasStopped) {
  // More uniform plans than are asked for, in another unit.
  const Outcome other = run("\"$FUSETUNE\" search --strategy random --trials " + std::to_string(2 * kPlans) +
                            " --samples 4" + kProblem + " --db tiny.db");
  ASSERT_EQ(other.exit_code, 0) << other.err;
  std::set<std::string> before;
  for (int stop = 0; stop < kStops; ++stop) {
    const Outcome stopped = run("timeout --signal=INT 15 " + recorded("tiny.jsonl.gz"));
    if (stopped.exit_code == 0) break;  // a fast machine
    const auto now = measured("\"$FUSETUNE\" db export --db tiny.db");
    EXPECT_TRUE(std::includes(now.begin(), now.end(), before.begin(), before.end())) << "measured again";
    before = now;
  }
  const Outcome done = run(recorded("tiny.jsonl.gz"));
  ASSERT_EQ(done.exit_code, 0) << done.out << done.err;
  const auto all = measured("gunzip -c tiny.jsonl.gz");
  EXPECT_TRUE(std::includes(all.begin(), all.end(), before.begin(), before.end())) << "measured again";
  const auto uniform = std::count_if(all.begin(), all.end(), [](const std::string& line) {
    return line.find("\"sampled\":\"uniform\"") != std::string::npos;
  });
  EXPECT_GE(uniform, kPlans);
  EXPECT_GT(all.size(), 140u) << "all kernels but noisy ones";
  // Nothing is left to do: the same measurements again.
  ASSERT_EQ(run(recorded("again.jsonl.gz")).exit_code, 0);
  const auto again = measured("gunzip -c again.jsonl.gz");
  EXPECT_TRUE(std::includes(again.begin(), again.end(), all.begin(), all.end()));
}

}  // namespace
}  // namespace fusetune
