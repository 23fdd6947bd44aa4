// The driver finds a planted fault, keeps the input, and says how to repeat it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/subprocess.h"
#include "mutator.h"

namespace fusetune::fuzz {
namespace {

using testing::HasSubstr;

class DriverTest : public testing::Test {
 protected:
  base::ProcessResult shell(const std::string& script) const {
    base::ProcessOptions options;
    options.timeout_seconds = 120;
    return base::run_process({"/bin/sh", "-c", "cd '" + directory_.path().string() + "' && " + script},
                             options);
  }
  base::TemporaryDirectory directory_;
};

TEST_F(DriverTest, FindsAPlantedFaultAndRepeatsIt) {
  const base::ProcessResult found = shell("FUSETUNE_FUZZ_SEED=5 FUSETUNE_FUZZ_SECONDS=60 " PLANTED_TARGET);
  EXPECT_EQ(found.exit_code, 1);
  EXPECT_THAT(found.output, testing::AllOf(HasSubstr("FUSETUNE_FUZZ_SEED=5"), HasSubstr("executions"),
                                           HasSubstr("does not hold: the planted fault is not met")));
  const std::string label = "\nrepeat: ";
  const std::size_t at = found.output.find(label);
  ASSERT_NE(at, std::string::npos) << found.output;
  const std::size_t begin = at + label.size();
  const std::string command = found.output.substr(begin, found.output.find('\n', begin) - begin);
  const base::ProcessResult repeated = shell(command);
  EXPECT_EQ(repeated.exit_code, 1);
  EXPECT_THAT(repeated.output, HasSubstr("the planted fault is not met"));
  // The same seed, the same input.
  EXPECT_EQ(shell("ls crash-* | wc -l").output, "1\n");
  shell("FUSETUNE_FUZZ_SEED=5 FUSETUNE_FUZZ_SECONDS=60 " PLANTED_TARGET);
  EXPECT_EQ(shell("ls crash-* | wc -l").output, "1\n");
}

TEST_F(DriverTest, SeedsAreWrittenAndFine) {
  EXPECT_EQ(shell(PLANTED_TARGET " --write-seeds seeds").exit_code, 0);
  const base::ProcessResult seeds = shell(PLANTED_TARGET " seeds/*");
  EXPECT_EQ(seeds.exit_code, 0);
  EXPECT_THAT(seeds.output, HasSubstr("2 inputs are fine"));
}

TEST(MutatorTest, IsDeterministicAndKeepsTheLimit) {
  const std::vector<std::string> corpus{"", "a=1", std::string(500, 'x')};
  Mutator one(corpus, 3), two(corpus, 3), other(corpus, 4);
  int differ = 0;
  for (int i = 0; i < 5000; ++i) {
    const std::string text = one.next(1000);
    EXPECT_LE(text.size(), 1000U);
    EXPECT_EQ(text, two.next(1000));
    differ += text != other.next(1000);
  }
  EXPECT_GT(differ, 4000);
}

}  // namespace
}  // namespace fusetune::fuzz
