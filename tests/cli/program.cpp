#include "cli/program.h"

#include "base/subprocess.h"

namespace fusetune::cli_test {
namespace {

std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? "'\\''" : std::string(1, c);
  return text + "'";
}

}  // namespace

Outcome shell(const std::string& script, const std::filesystem::path& directory, double timeout_seconds) {
  const base::TemporaryDirectory files;
  const base::TemporaryDirectory empty;
  const std::filesystem::path where = directory.empty() ? empty.path() : directory;
  const std::string out = (files.path() / "out").string(), err = (files.path() / "err").string();
  std::string whole = "cd ";
  whole.append(quoted(where.string())).append("\nFUSETUNE=").append(quoted(FUSETUNE_PROGRAM));
  whole.append("\n{ ").append(script).append("\n} >").append(quoted(out));
  whole.append(" 2>").append(quoted(err)).append(" </dev/null");
  base::ProcessOptions options;
  options.timeout_seconds = timeout_seconds;
  const base::ProcessResult result = base::run_process({"/bin/sh", "-c", whole}, options);
  return {result.exit_code, base::read_file(out), base::read_file(err)};
}

Outcome fusetune(const std::vector<std::string>& words, const std::filesystem::path& directory) {
  std::string script = "exec \"$FUSETUNE\"";
  for (const std::string& word : words) script.append(" ").append(quoted(word));
  // exec inside braces with redirections replaces the shell: the exit code is the program's own.
  return shell(script, directory);
}

bool has_control_characters(const std::string& text) {
  for (const char c : text)
    if ((static_cast<unsigned char>(c) < 0x20 && c != '\n') || c == 0x7f) return true;
  return false;
}

FileOf::FileOf(const std::string& content) { base::write_file_atomic(path(), content); }

}  // namespace fusetune::cli_test
