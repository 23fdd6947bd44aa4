// Runs the fusetune program as a user would.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"

namespace fusetune::cli_test {

struct Outcome {
  int exit_code = -1;
  std::string out;  // standard output
  std::string err;  // standard error
};

/// Runs `fusetune WORDS…` without a shell around the words. In an empty directory, so that no database of
/// the user's is found; `directory` overrides it.
Outcome fusetune(const std::vector<std::string>& words, const std::filesystem::path& directory = {});

/// Runs a shell script in which $FUSETUNE is the program. Ends it after so many seconds, 20 less than a test
/// has unless it says otherwise.
Outcome shell(const std::string& script, const std::filesystem::path& directory = {},
              double timeout_seconds = 280);

/// Others than the ends of lines.
bool has_control_characters(const std::string& text);

/// A directory with one file in it, for --file and the like.
class FileOf {
 public:
  explicit FileOf(const std::string& content);
  std::string path() const { return (directory_.path() / "file.txt").string(); }

 private:
  base::TemporaryDirectory directory_;
};

}  // namespace fusetune::cli_test
