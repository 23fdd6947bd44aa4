// Commands, help, exit codes and streams.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/program.h"

namespace fusetune::cli_test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

const std::vector<std::string> kCommands = {
    "translate", "encode", "space", "generate", "search",   "run",    "verify",  "bench",   "db",
    "devices",   "doctor", "train", "predict",  "evaluate", "export", "profile", "explain", "report"};

/// Bytes that would move a terminal's cursor or change its colours.
TEST(Program, VersionIsOneLine) {
  const Outcome run = fusetune({"--version"});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_THAT(run.out, testing::MatchesRegex("fusetune [0-9]+\\.[0-9]+\\.[0-9]+\n"));
  EXPECT_THAT(run.err, IsEmpty());
}

TEST(Program, HelpListsEveryCommandButHiddenOnes) {
  for (const char* word : {"--help", "-h", "help"}) {
    const Outcome run = fusetune({word});
    EXPECT_EQ(run.exit_code, 0);
    for (const std::string& command : kCommands) EXPECT_THAT(run.out, HasSubstr("\n  " + command + " "));
    EXPECT_THAT(run.out, Not(HasSubstr("worker")));
  }
}

TEST(Program, EveryCommandHasHelpWithAnExample) {
  for (const std::string& command : kCommands) {
    const Outcome run = fusetune({command, "--help"});
    EXPECT_EQ(run.exit_code, 0) << command << ": " << run.err;
    EXPECT_THAT(run.out, HasSubstr("Usage: fusetune " + command));
    EXPECT_THAT(run.out, HasSubstr("Example:\n  fusetune " + command));
    EXPECT_FALSE(has_control_characters(run.out)) << command;
    EXPECT_THAT(run.err, IsEmpty());
    EXPECT_EQ(fusetune({"help", command}).out, run.out);
  }
}

TEST(Program, NoCommandIsAUsageError) {
  const Outcome run = fusetune({});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("fusetune --help"));
  EXPECT_THAT(run.out, IsEmpty());
}

TEST(Program, UnknownCommandsSuggestTheNearest) {
  const Outcome run = fusetune({"tranlsate", "7"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("unknown command 'tranlsate', did you mean translate?"));
  EXPECT_THAT(fusetune({"xyzzy"}).err, Not(HasSubstr("did you mean")));
}

TEST(Program, UnknownOptionsSuggestTheNearest) {
  const Outcome run = fusetune({"translate", "7", "--exlpain"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("unknown option '--exlpain', did you mean --explain?"));
  EXPECT_THAT(fusetune({"verify", "7", "--haeds=3"}).err, HasSubstr("did you mean --heads?"));
  EXPECT_EQ(fusetune({"translate", "--no-such-thing", "7"}).exit_code, 2);
  EXPECT_EQ(fusetune({"verify", "7", "--no-verify"}).exit_code, 2);
}

TEST(Program, BackendsThatCannotTimeAreRefusedWithTheReason) {
  for (const char* command : {"bench", "run"})
    EXPECT_THAT(fusetune({command, "7", "--backend", "simt"}).err, HasSubstr("verify only")) << command;
  EXPECT_THAT(fusetune({"search", "--backend", "simt"}).err, HasSubstr("its times say nothing"));
  EXPECT_EQ(fusetune({"verify", "7", "--backend", "abacus"}).exit_code, 2);
  EXPECT_THAT(fusetune({"generate", "7", "--target", "abacus"}).err, HasSubstr("hip"));
}

TEST(Program, MissingAndSurplusWords) {
  EXPECT_EQ(fusetune({"translate"}).exit_code, 2);
  EXPECT_EQ(fusetune({"verify"}).exit_code, 2);
  EXPECT_EQ(fusetune({"run", "1", "2"}).exit_code, 2);
  EXPECT_EQ(fusetune({"space", "surplus"}).exit_code, 2);
  EXPECT_EQ(fusetune({"translate", "7", "--file"}).exit_code, 2);
  EXPECT_EQ(fusetune({"verify", "7", "--seq", "1", "--seq", "2"}).exit_code, 2);
}

TEST(Program, EndsQuietlyWhenNobodyReadsOn) {
  const Outcome run = shell("{ \"$FUSETUNE\" space --list; echo \"code $?\" >&2; } | head -n 1");
  EXPECT_THAT(run.out, HasSubstr("mask  binary"));
  EXPECT_EQ(run.err, "code 0\n");
  const Outcome help = shell("{ sleep 0.2; \"$FUSETUNE\" --help; echo \"code $?\" >&2; } | true");
  EXPECT_EQ(help.err, "code 0\n");
}

TEST(Program, FullDiskIsAnEnvironmentError) {
  const Outcome run = shell("\"$FUSETUNE\" space --list >/dev/full");
  EXPECT_EQ(run.exit_code, 3);
  EXPECT_THAT(run.err, HasSubstr("cannot write to standard output: No space left"));
  const Outcome short_output = shell("\"$FUSETUNE\" translate 7 >/dev/full");
  EXPECT_EQ(short_output.exit_code, 3) << "also where all output fits the buffer";
}

TEST(Program, OutputHasNoControlCharacters) {
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"--help"}, {"translate", "48996", "--explain"}, {"space", "--list"}, {"devices"}})
    EXPECT_FALSE(has_control_characters(fusetune(words).out)) << words[0];
}

TEST(Program, NumbersDoNotFollowTheLocale) {
  const Outcome c = shell("LC_ALL=C \"$FUSETUNE\" verify --help");
  const Outcome german = shell("LC_ALL=de_DE.UTF-8 \"$FUSETUNE\" verify --help");
  EXPECT_EQ(c.out, german.out);
  EXPECT_EQ(shell("LC_ALL=de_DE.UTF-8 \"$FUSETUNE\" verify 7 --eps 1,5").exit_code, 2);
}

TEST(Doctor, NamesAMissingCompilerAndWhatToDo) {
  const Outcome run = fusetune({"doctor", "--cxx", "no-such-compiler"});
  EXPECT_EQ(run.exit_code, 3);
  EXPECT_THAT(run.out, HasSubstr("no-such-compiler"));
  EXPECT_THAT(run.out, HasSubstr("->"));
}

TEST(Doctor, JsonHasTheSameFindings) {
  const Outcome text = fusetune({"doctor"});
  const Outcome json = fusetune({"doctor", "--json"});
  EXPECT_EQ(text.exit_code, json.exit_code);
  EXPECT_THAT(text.out, HasSubstr("database"));
  EXPECT_THAT(json.out, HasSubstr("\"what\":\"database\""));
}

}  // namespace
}  // namespace fusetune::cli_test
