#include "cli/options.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/log.h"
#include "base/number.h"
#include "base/text.h"
#include "cli/command.h"

namespace fusetune::cli {

namespace {

/// CLI11 takes a value "[7-14]" for a list and drops its brackets. A mark before the bracket keeps it from
/// that.
constexpr char kShield = '\x01';

std::string shielded(std::string word) {
  const std::size_t equals = word.starts_with("--") ? word.find('=') : std::string::npos;
  const std::size_t value = equals == std::string::npos ? 0 : equals + 1;
  if (value < word.size() && word[value] == '[' && word.back() == ']') word.insert(value, 1, kShield);
  return word;
}

std::string unshielded(std::string text) {
  std::erase(text, kShield);
  return text;
}

}  // namespace

struct Options::Impl {
  std::string command;
  CLI::App app;
  std::vector<std::string> words;
  std::vector<std::string> names;                // declared, for suggestions
  std::vector<std::string> required;             // names of positionals that must be there
  std::vector<std::string> later;                // known, refused
  std::vector<std::string*> outputs;             // targets of output()
  std::vector<std::vector<std::string>*> lists;  // targets of texts() and positionals()
  std::string group;
  bool quiet = false;

  CLI::Option* finish(CLI::Option* option, std::string_view name, std::string_view value) {
    names.emplace_back(name);
    if (!value.empty()) option->type_name(std::string(value));
    if (!group.empty()) option->group(group);
    return option;
  }

  /// An option whose one value `read` turns into its target; `read` returns what was expected, empty if all
  /// is well.
  template <typename Read>
  void add_value(std::string_view name, std::string_view value, std::string_view help,
                 const std::string& initial, Read read) {
    const auto convert = [name = std::string(name), read](const std::string& word) {
      const std::string text = unshielded(word);
      if (const std::string expected = read(text); !expected.empty())
        throw base::UsageError(fmt::format("{} {}: expected {}", name, text.empty() ? "''" : text, expected));
    };
    const std::string default_text = initial.empty() ? "" : fmt::format(" [{}]", initial);
    finish(app.add_option_function<std::string>(std::string(name), convert, std::string(help) + default_text),
           name, value);
  }

  void refuse_unknown_words() const {
    for (const std::string& remaining : app.remaining()) {
      if (remaining == "--") continue;
      const std::string word = unshielded(remaining);
      const std::string name = word.substr(0, word.find('='));
      if (!name.starts_with('-') || name == "-")
        throw base::UsageError(fmt::format("'{}' was not expected; see fusetune {} --help", word, command));
      const std::vector<std::string_view> candidates(names.begin(), names.end());
      const std::string near = base::nearest(name, candidates);
      throw base::UsageError(fmt::format("unknown option '{}'{}; see fusetune {} --help", name,
                                         near.empty() ? "" : fmt::format(", did you mean {}?", near),
                                         command));
    }
  }
};

Options::Options(const Command& command, std::vector<std::string> words) : impl_(std::make_unique<Impl>()) {
  impl_->command = command.name;
  impl_->words = std::move(words);
  CLI::App& app = impl_->app;
  app.description(std::string(command.summary));
  app.name(fmt::format("fusetune {}", command.name));
  app.set_help_flag("-h,--help", "print this and exit");
  app.allow_extras();  // refused after parsing, with a suggestion
  app.get_formatter()->column_width(34);
  impl_->names.emplace_back("--help");
  flag("--quiet", impl_->quiet, "no progress or notes on standard error");
  if (!command.example.empty()) app.footer(fmt::format("Example:\n{}", command.example));
}

Options::~Options() = default;

void Options::positionals(std::string_view name, std::vector<std::string>& target, std::string_view help,
                          bool required) {
  impl_->app.add_option(std::string(name), target, std::string(help))->type_name("");
  impl_->lists.push_back(&target);
  if (required) impl_->required.emplace_back(name);
}

void Options::positional(std::string_view name, std::string& target, std::string_view help, bool required) {
  const auto read = [&target](const std::string& word) { target = unshielded(word); };
  impl_->app.add_option_function<std::string>(std::string(name), read, std::string(help))->type_name("");
  if (required) impl_->required.emplace_back(name);
}

void Options::flag(std::string_view name, bool& target, std::string_view help) {
  impl_->finish(impl_->app.add_flag(std::string(name), target, std::string(help)), name, "");
}

void Options::text(std::string_view name, std::string& target, std::string_view value,
                   std::string_view help) {
  impl_->add_value(name, value, help, target, [&target](const std::string& text) {
    target = text;
    return std::string();
  });
}

void Options::texts(std::string_view name, std::vector<std::string>& target, std::string_view value,
                    std::string_view help) {
  impl_->finish(impl_->app.add_option(std::string(name), target, std::string(help)), name, value);
  impl_->lists.push_back(&target);
}

void Options::repeated(std::string_view name, std::vector<std::string>& target, std::string_view value,
                       std::string_view help) {
  texts(name, target, value, help);
  impl_->app.get_option(std::string(name))->allow_extra_args(false);
}

void Options::choice(std::string_view name, std::string& target, const std::vector<std::string>& choices,
                     std::string_view help) {
  std::string joined;
  for (const std::string& choice : choices) joined += (joined.empty() ? "" : "|") + choice;
  impl_->add_value(name, joined, help, target, [&target, choices, joined](const std::string& text) {
    if (std::find(choices.begin(), choices.end(), text) == choices.end()) return "one of " + joined;
    target = text;
    return std::string();
  });
}

void Options::integer(std::string_view name, std::int64_t& target, std::string_view value,
                      std::string_view help, std::int64_t minimum, std::int64_t maximum) {
  const std::string initial = target < minimum ? "" : std::to_string(target);
  impl_->add_value(name, value, help, initial, [&target, minimum, maximum](const std::string& text) {
    const auto number = base::parse_int(text);
    if (!number || *number < minimum || *number > maximum)
      return maximum == INT64_MAX || maximum == INT32_MAX
                 ? fmt::format("a whole number of at least {}", minimum)
                 : fmt::format("a whole number from {} to {}", minimum, maximum);
    target = *number;
    return std::string();
  });
}

void Options::integer(std::string_view name, int& target, std::string_view value, std::string_view help,
                      int minimum, int maximum) {
  const std::string initial = target < minimum ? "" : std::to_string(target);
  impl_->add_value(name, value, help, initial, [&target, minimum, maximum](const std::string& text) {
    const auto number = base::parse_int(text);
    if (!number || *number < minimum || *number > maximum)
      return maximum == INT32_MAX ? fmt::format("a whole number of at least {}", minimum)
                                  : fmt::format("a whole number from {} to {}", minimum, maximum);
    target = static_cast<int>(*number);
    return std::string();
  });
}

void Options::unsigned_integer(std::string_view name, std::uint64_t& target, std::string_view value,
                               std::string_view help) {
  impl_->add_value(name, value, help, std::to_string(target), [&target](const std::string& text) {
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (text.empty() || error != std::errc() || end != text.data() + text.size())
      return std::string("a whole number from 0 to 18446744073709551615");
    target = number;
    return std::string();
  });
}

void Options::number(std::string_view name, double& target, std::string_view value, std::string_view help,
                     double minimum) {
  const std::string initial = target < minimum ? "" : base::format_shortest(target);
  impl_->add_value(name, value, help, initial, [&target, minimum](const std::string& text) {
    const auto number = base::parse_double(text);
    if (!number || !std::isfinite(*number) || *number < minimum)
      return fmt::format("a number of at least {}", base::format_shortest(minimum));
    target = *number;
    return std::string();
  });
}

void Options::seconds(std::string_view name, double& target, std::string_view help) {
  const std::string initial = target > 0 ? base::format_shortest(target) : "";
  impl_->add_value(name, "TIME", help, initial, [&target](const std::string& text) -> std::string {
    const auto seconds = base::parse_seconds(text);
    constexpr double kLongest = 1e9;
    if (!seconds || *seconds <= 0 || *seconds > kLongest)
      return "a time above 0, such as 20, 20s, 500ms, 5m or 1h";
    target = *seconds;
    return "";
  });
}

void Options::output(std::string_view name, std::string& target, std::string_view help) {
  // A flag that takes a value only after '=': "--json 6826" must not take the mask for a file.
  impl_->finish(impl_->app.add_flag(std::string(name), target, std::string(help)), name, "[=FILE]");
  impl_->outputs.push_back(&target);
}

void Options::later(std::string_view name) {
  CLI::Option* option = impl_->app.add_option_function<std::vector<std::string>>(
      std::string(name), [](const std::vector<std::string>&) {}, "");
  option->expected(0, 1)->group("");
  impl_->later.emplace_back(name);
}

void Options::footnote(std::string_view text) {
  impl_->app.footer(fmt::format("{}\n\n{}", impl_->app.get_footer(), text));
}

void Options::group(std::string_view heading) { impl_->group = heading; }

void Options::parse() {
  Impl& impl = *impl_;
  std::vector<std::string> words;
  for (const std::string& word : impl.words) {
    // "--json -" for those used to it: the same as "--json", and "-" is no operand of any command.
    const bool after_output = !words.empty() && (words.back() == "--json" || words.back() == "--csv");
    if (word == "-" && after_output) continue;
    words.push_back(shielded(word));
  }
  std::reverse(words.begin(), words.end());  // CLI11 takes them from the end
  try {
    impl.app.parse(std::move(words));
  } catch (const CLI::CallForHelp&) {
    throw HelpRequest{impl.app.help()};
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string text = error.what(), name = text.substr(0, text.find(':'));
    const bool repeated = text.find("At Most") != std::string::npos;
    throw base::UsageError(fmt::format("{} {}; see fusetune {} --help", name,
                                       repeated ? "is given more than once" : "needs a value", impl.command));
  } catch (const CLI::ParseError& error) {
    throw base::UsageError(fmt::format("{}; see fusetune {} --help", error.what(), impl.command));
  }
  for (std::vector<std::string>* list : impl.lists)
    for (std::string& text : *list) text = unshielded(text);
  for (std::string* target : impl.outputs)
    if (*target == "true") *target = "-";  // CLI11's value of a flag without one
  impl.refuse_unknown_words();
  for (const std::string& name : impl.later)
    if (given(name)) throw base::UsageError(fmt::format("the option {} comes with a later version", name));
  for (const std::string& name : impl.required)
    if (!given(name))
      throw base::UsageError(
          fmt::format("fusetune {} needs {}; see fusetune {} --help", impl.command, name, impl.command));
  base::set_quiet(impl.quiet);
}

bool Options::given(std::string_view name) const {
  return impl_->app.get_option(std::string(name))->count() > 0;
}

std::string Options::command_line(std::span<const std::string_view> names) const {
  std::string text;
  for (const std::string_view name : names) {
    if (!given(name)) continue;
    for (const std::string& value : impl_->app.get_option(std::string(name))->results())
      text += fmt::format(" {} {}", name, base::quote_for_shell(unshielded(value)));
  }
  return text;
}

std::string Options::whole_command() const {
  std::string text = fmt::format("fusetune {}", impl_->command);
  for (const std::string& word : impl_->words) text += " " + base::quote_for_shell(word);
  return text;
}

}  // namespace fusetune::cli
