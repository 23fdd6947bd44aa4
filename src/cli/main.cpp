// fusetune COMMAND: finds the command, runs it and maps what it throws to exit codes.
#include <fmt/core.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/output.h"

namespace fusetune::cli {
namespace {

std::string overview() {
  std::string text =
      "fusetune finds the fastest way to split a transformer encoder block into kernels.\n\n"
      "Usage: fusetune COMMAND [OPTIONS]\n\nCommands:\n";
  for (const Command& command : commands())
    if (!command.hidden) text += fmt::format("  {:<10} {}\n", command.name, command.summary);
  text +=
      "\nfusetune COMMAND --help    options and an example\n"
      "fusetune --version         the version\n\n"
      "Exit codes: 0 done, 1 it ran and the answer is bad, 2 wrong usage, 3 something is missing here,\n"
      "130 interrupted.\n";
  return text;
}

const Command& find_command(const std::string& name) {
  std::vector<std::string_view> names;
  for (const Command& command : commands()) {
    if (command.name == name) return command;
    if (!command.hidden) names.push_back(command.name);
  }
  const std::string near = base::nearest(name, names);
  throw base::UsageError(fmt::format("unknown command '{}'{}; see fusetune --help", name,
                                     near.empty() ? "" : fmt::format(", did you mean {}?", near)));
}

int complain(const char* what, int code) {
  std::fprintf(stderr, "fusetune: %s\n", what);
  return code;
}

/// Whatever the command is doing meanwhile.
void end_interrupted() {
  base::TemporaryDirectory::remove_all();
  std::_Exit(complain("interrupted", kInterrupted));
}

int dispatch(std::vector<std::string> words) {
  if (words.empty()) throw base::UsageError("which command? See fusetune --help");
  std::string name = words.front();
  words.erase(words.begin());
  if (name == "--version") {
    print("fusetune " FUSETUNE_VERSION "\n");
    return kDone;
  }
  if (name == "help" && !words.empty()) {
    name = words.front();
    words = {"--help"};
  }
  if (name == "--help" || name == "-h" || name == "help") {
    print(overview());
    return kDone;
  }
  const Command& command = find_command(name);
  if (!command.hidden) end_at_interrupts(end_interrupted);  // unless the command catches them
  Options options(command, std::move(words));
  return command.run(options);
}

int run(std::vector<std::string> words) {
  try {
    int code = kDone;
    try {
      code = dispatch(std::move(words));
    } catch (const HelpRequest& help) {
      print(help.text);
    }
    flush_output();
    return code;
  } catch (const BrokenPipe&) {
    return kDone;  // nobody reads on: whoever closed the pipe has what they wanted
  } catch (const Interrupted&) {
    return complain("interrupted", kInterrupted);
  } catch (const base::UsageError& error) {
    return complain(error.what(), kUsage);
  } catch (const base::EnvironmentError& error) {
    return complain(error.what(), kEnvironment);
  } catch (const base::InternalError& error) {
    return complain(fmt::format("internal error, please report it: {}", error.what()).c_str(), kEnvironment);
  } catch (const std::bad_alloc&) {
    return complain("out of memory: choose a smaller problem", kEnvironment);
  } catch (const std::exception& error) {
    return complain(fmt::format("unexpected error, please report it: {}", error.what()).c_str(),
                    kEnvironment);
  }
}

}  // namespace
}  // namespace fusetune::cli

int main(int argc, char** argv) {
  // A closed pipe is an error of the write that meets it, not the end of the process.
  std::signal(SIGPIPE, SIG_IGN);
  const int code = fusetune::cli::run({argv + 1, argv + argc});
  // What an abandoned command left in the buffer: a second complaint at exit would help nobody.
  std::fflush(stdout);
  return code;
}
