// tools/record_data --list: which problems of a list are recorded, with which arguments and into which files.
// The program is a stand-in that notes how it was called.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "../cli/program.h"
#include "base/file.h"

namespace fusetune {
namespace {

using cli_test::Outcome;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class RecordList : public testing::Test {
 protected:
  RecordList() {
    const std::string common = " --plans 0 --db " + (folder() / "some.db").string();
    base::write_file_atomic(
        folder() / "problems.txt",
        "# name, arguments\nfirst" + common + " --batch 1\n\nsecond" + common + " --batch 2 --mask causal\n");
    base::write_file_atomic(folder() / "program", "#!/bin/sh\necho \"$@\" >>\"$CALLS\"\n");
    std::filesystem::permissions(folder() / "program", std::filesystem::perms::owner_all);
  }
  std::filesystem::path folder() const { return directory_.path(); }
  Outcome record(const std::string& more = "") const {
    return cli_test::shell(
        "export CALLS=\"$PWD/calls\" FUSETUNE_PROGRAM=\"$PWD/program\"; : >calls; '" FUSETUNE_SOURCE_DIR
        "/tools/record_data' --list \"$PWD/problems.txt\" " +
            more + "; code=$?; cat calls; exit $code",
        folder());
  }

  base::TemporaryDirectory directory_;
};

TEST_F(RecordList, RecordsWhatIsNotThereYet) {
  base::write_file_atomic(folder() / "first.jsonl.gz", "");
  const Outcome missing = record();
  EXPECT_EQ(missing.exit_code, 0) << missing.err;
  EXPECT_THAT(missing.out, AllOf(HasSubstr("--batch 2 --mask causal"), Not(HasSubstr("--batch 1"))));
  EXPECT_THAT(missing.out, Not(HasSubstr("--strategy random"))) << "no plans were asked for";
  EXPECT_TRUE(std::filesystem::exists(folder() / "second.jsonl.gz"));
}

TEST_F(RecordList, RecordsThoseThatAreNamed) {
  base::write_file_atomic(folder() / "first.jsonl.gz", "");
  const Outcome named = record("first");
  EXPECT_EQ(named.exit_code, 0) << named.err;
  EXPECT_THAT(named.out, AllOf(HasSubstr("--batch 1"), Not(HasSubstr("--batch 2"))));
  EXPECT_FALSE(std::filesystem::exists(folder() / "second.jsonl.gz"));
}

TEST_F(RecordList, AListThatIsNotThereIsAnError) {
  std::filesystem::remove(folder() / "problems.txt");
  const Outcome none = record();
  EXPECT_NE(none.exit_code, 0);
  EXPECT_THAT(none.err + none.out, HasSubstr("cannot read the list of problems"));
}

}  // namespace
}  // namespace fusetune
