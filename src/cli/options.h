// Options of one command. A thin layer over CLI11, so that only options.cpp includes it (it is slow to
// compile) and so that every command parses numbers, suggests names and refuses words in the same way.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fusetune::cli {

struct Command;

/// Thrown by Options::parse() for --help; main prints the text and exits 0.
struct HelpRequest {
  std::string text;
};

/// A command function declares what it takes, calls parse() once and then runs:
///
///     int run_space(Options& options) {
///       bool list = false;
///       std::int64_t limit = 20;
///       options.flag("--list", list, "list the plans");
///       options.integer("--limit", limit, "N", "list at most N");
///       options.parse();
///       ...
///
/// Targets keep their value where the option is not given: initialise them with the default, which is shown
/// in --help unless it is empty or below the minimum. All names start with "--".
class Options {
 public:
  /// `words`: the arguments after the command's name.
  Options(const Command& command, std::vector<std::string> words);
  ~Options();

  /// All remaining words, e.g. masks. `required`: at least one must be there.
  void positionals(std::string_view name, std::vector<std::string>& target, std::string_view help,
                   bool required = true);
  /// One word.
  void positional(std::string_view name, std::string& target, std::string_view help, bool required = true);

  void flag(std::string_view name, bool& target, std::string_view help);
  /// `value` names the value in the help, e.g. "FILE".
  void text(std::string_view name, std::string& target, std::string_view value, std::string_view help);
  /// May be given several times, with one or more values each time.
  void texts(std::string_view name, std::vector<std::string>& target, std::string_view value,
             std::string_view help);
  /// May be given several times, with one value each time.
  void repeated(std::string_view name, std::vector<std::string>& target, std::string_view value,
                std::string_view help);
  /// One of `choices`; anything else is a usage error that lists them.
  void choice(std::string_view name, std::string& target, const std::vector<std::string>& choices,
              std::string_view help);
  /// Whole numbers in [minimum, maximum]; C locale, no '+', no suffix.
  void integer(std::string_view name, std::int64_t& target, std::string_view value, std::string_view help,
               std::int64_t minimum = 0, std::int64_t maximum = INT64_MAX);
  void integer(std::string_view name, int& target, std::string_view value, std::string_view help,
               int minimum = 0, int maximum = INT32_MAX);
  void unsigned_integer(std::string_view name, std::uint64_t& target, std::string_view value,
                        std::string_view help);
  /// Finite numbers >= minimum; C locale.
  void number(std::string_view name, double& target, std::string_view value, std::string_view help,
              double minimum = 0);
  /// A time above 0 in seconds, or with a unit: 20, 20s, 500ms, 5m, 1h.
  void seconds(std::string_view name, double& target, std::string_view help);
  /// "--name" alone sets "-" (standard output), "--name=FILE" sets FILE: --json, --csv.
  void output(std::string_view name, std::string& target, std::string_view help);

  /// An option that a later version brings: refused by name, exit code 2, whatever its value.
  void later(std::string_view name);
  /// Text at the end of --help.
  void footnote(std::string_view text);
  /// Heading in --help for the options declared from here on.
  void group(std::string_view heading);

  /// Reads the words into the targets. Throws base::UsageError (unknown option with the nearest name,
  /// missing or bad value) and HelpRequest.
  void parse();
  /// After parse(): the user wrote this option.
  bool given(std::string_view name) const;
  /// After parse(): those of `names` that the user wrote, with their values, quoted for a shell; each after a
  /// space.
  std::string command_line(std::span<const std::string_view> names) const;
  /// The whole command as the user wrote it, quoted for a shell: "fusetune search --seq 64".
  std::string whole_command() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fusetune::cli
