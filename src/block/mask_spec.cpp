// The pattern table and the text form of masks.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/number.h"
#include "base/text.h"
#include "block/mask.h"
#include "block/mask_values.h"
#include "block/npy.h"

namespace fusetune::block {
namespace {

enum class ValueKind { integer, flag, lengths, text };

struct ParameterRule {
  std::string_view name;
  ValueKind kind = ValueKind::integer;
  std::int64_t least = 0;              // integers only
  std::string_view default_text = {};  // empty: none, or it depends on S
};

struct PatternRule {
  MaskPatternInfo info;
  std::vector<ParameterRule> parameters;
};

const ParameterRule kStep{"step", ValueKind::integer, 1};
const ParameterRule kWindow{"window", ValueKind::integer, 0, "32"};
const ParameterRule kGlobal{"global", ValueKind::integer, 0, "32"};
const ParameterRule kSeed{"seed", ValueKind::integer, 0};

/// One row per pattern: a new pattern is a row here and a painter in make_painter().
const std::vector<PatternRule>& pattern_rules() {
  static const std::vector<PatternRule> rules{
      {{"full", "", "always"}, {}},
      {{"padding", "lengths=a/b/... or avg, seed=0", "j < length[b] and i < length[b]"},
       {{"avg", ValueKind::integer, 1}, {"lengths", ValueKind::lengths}}},
      {{"causal", "", "j <= i"}, {}},
      {{"strided", "step=floor(sqrt(S))", "j <= i and ((i-j) % step == 0 or j > i-step)"}, {kStep}},
      {{"fixed", "step=floor(sqrt(S))", "j <= i and (j % step == step-1 or j - j % step > i-step)"}, {kStep}},
      {{"sliding", "window=32", "abs(i-j) <= window"}, {kWindow}},
      {{"dilated", "window=32, rate=1", "(i-j) % (rate+1) == 0 and abs(i-j) <= window*(rate+1)"},
       {kWindow, {"rate", ValueKind::integer, 0, "1"}}},
      {{"longformer", "global=32, window=32", "i < global or j < global or abs(i-j) <= window"},
       {kGlobal, kWindow}},
      {{"bigbird", "global=32, window=32, block=32, random=3, seed=0",
        "longformer, or j's key block is one of `random` drawn for i's query block"},
       {kGlobal,
        kWindow,
        {"block", ValueKind::integer, 1, "32"},
        {"random", ValueKind::integer, 0, "3"},
        {"seed", ValueKind::integer, 0, "0"}}},
      {{"block_diagonal", "block=128", "i/block == j/block"}, {{"block", ValueKind::integer, 1, "128"}}},
      {{"file", "path", "the boolean [S,S] or [B,S,S] array of a .npy file says so"},
       {{"path", ValueKind::text}, {"digest", ValueKind::text}}},
  };
  return rules;
}

/// Parameters that any pattern takes. `seed` is for padding_avg (and padding's avg).
const std::array kCombinators{ParameterRule{"causal", ValueKind::flag},
                              ParameterRule{"padding_avg", ValueKind::integer, 1},
                              ParameterRule{"padding_lengths", ValueKind::lengths}, kSeed};

/// Larger values would overflow index arithmetic and mean the same as this one.
constexpr std::int64_t kMostParameter = std::int64_t{1} << 31;

/// Of a mask file's rows and columns: the longest sequence of a Problem.
constexpr std::int64_t kMostPositions = 65'536;

using Parameters = std::map<std::string, std::string>;

const PatternRule& find_pattern(std::string_view name) {
  std::vector<std::string_view> names;
  for (const PatternRule& rule : pattern_rules()) {
    if (rule.info.name == name) return rule;
    names.push_back(rule.info.name);
  }
  const std::string near = base::nearest(name, names);
  fail_mask(name, fmt::format("unknown pattern; expected one of {}{}", fmt::join(names, ", "),
                              near.empty() ? "" : "; did you mean " + near + "?"));
}

const ParameterRule& find_parameter(const PatternRule& pattern, std::string_view name) {
  std::vector<std::string_view> names;
  for (const ParameterRule& rule : pattern.parameters) {
    if (rule.name == name) return rule;
    names.push_back(rule.name);
  }
  for (const ParameterRule& rule : kCombinators) {
    if (rule.name == name) return rule;
    if (std::find(names.begin(), names.end(), rule.name) == names.end()) names.push_back(rule.name);
  }
  const std::string near = base::nearest(name, names);
  fail_mask(pattern.info.name,
            fmt::format("unknown parameter '{}'; it takes {}{}", name, fmt::join(names, ", "),
                        near.empty() ? "" : "; did you mean " + near + "?"));
}

std::int64_t parse_whole(std::string_view mask, std::string_view parameter, std::string_view text,
                         std::int64_t least, std::int64_t most) {
  const std::optional<std::int64_t> value = base::parse_int(text);
  if (!value || *value < least || *value > most) {
    fail_mask(mask,
              fmt::format("{}={}: expected a whole number from {} to {}", parameter, text, least, most));
  }
  return *value;
}

/// The value in its one canonical spelling.
std::string check_value(std::string_view mask, const ParameterRule& rule, const std::string& text) {
  switch (rule.kind) {
    case ValueKind::flag:
      if (text != "0" && text != "1") fail_mask(mask, fmt::format("{}={}: expected 0 or 1", rule.name, text));
      return text;
    case ValueKind::integer: {
      const std::int64_t most = rule.name == "seed" ? INT64_MAX : kMostParameter;
      return std::to_string(parse_whole(mask, rule.name, text, rule.least, most));
    }
    case ValueKind::lengths: {
      std::vector<std::int64_t> lengths;
      for (const std::string& length : base::split(text, '/')) {
        lengths.push_back(parse_whole(mask, rule.name, length, 0, kMostParameter));
      }
      return fmt::format("{}", fmt::join(lengths, "/"));
    }
    case ValueKind::text:
      if (text.empty()) fail_mask(mask, fmt::format("{}= is empty", rule.name));
      for (const char c : text) {
        if (static_cast<unsigned char>(c) < ' ')
          fail_mask(mask, fmt::format("{} holds a control character", rule.name));
      }
      return text;
  }
  throw base::InternalError("unknown kind of mask parameter");
}

void rename(Parameters& parameters, const std::string& from, const std::string& to) {
  if (auto node = parameters.extract(from)) {
    node.key() = to;
    parameters.insert(std::move(node));
  }
}

/// Combinations that have two spellings get one: see MaskSpec::canonical().
void unify_spelling(MaskSpec& spec) {
  Parameters& parameters = spec.parameters;
  if (spec.pattern == "padding") {
    for (const std::string which : {"avg", "lengths"}) {
      if (parameters.contains("padding_" + which))
        fail_mask("padding", "write avg or lengths, without padding_");
      rename(parameters, which, "padding_" + which);
    }
    if (!parameters.contains("padding_avg") && !parameters.contains("padding_lengths")) {
      fail_mask("padding", "expected avg=N or lengths=a/b/...");
    }
    spec.pattern = "full";
  }
  const auto causal = parameters.find("causal");
  if (causal != parameters.end()) {
    const bool implied = spec.pattern == "causal" || spec.pattern == "strided" || spec.pattern == "fixed";
    const bool intersect = causal->second == "1";
    if (intersect && spec.pattern == "full") spec.pattern = "causal";
    if (!intersect || implied || spec.pattern == "causal") parameters.erase(causal);
  }
  if (spec.pattern == "full" &&
      (parameters.contains("padding_avg") || parameters.contains("padding_lengths"))) {
    spec.pattern = "padding";
    for (const std::string which : {"avg", "lengths"}) rename(parameters, "padding_" + which, which);
  }
}

void check_padding(MaskSpec& spec, std::string_view written) {
  const bool by_average = find_length_parameter(spec, "avg") != nullptr;
  if (by_average && find_length_parameter(spec, "lengths") != nullptr) {
    fail_mask(written, "takes lengths or an average, not both");
  }
  const bool seeded = by_average || spec.pattern == "bigbird";
  if (seeded) {
    spec.parameters.try_emplace("seed", "0");
  } else if (spec.parameters.contains("seed")) {
    fail_mask(written, "seed has no effect without an average length");
  }
}

std::string escape(std::string_view value) {
  std::string text;
  for (const char c : value) {
    if (c == '\\' || c == ',' || c == ' ') text += '\\';
    text += c;
  }
  return text;
}

/// Splits "a=1,b=2" at commas that no backslash precedes, and takes the backslashes away.
std::vector<std::string> split_parameters(std::string_view text) {
  std::vector<std::string> parts(1);
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ',') {
      parts.emplace_back();
    } else {
      if (text[i] == '\\' && i + 1 < text.size()) ++i;
      parts.back() += text[i];
    }
  }
  return parts;
}

/// Key and value of "key=value"; "causal" alone is 1, and of a file the path may stand alone.
std::pair<std::string, std::string> key_and_value(const MaskSpec& spec, std::string_view text,
                                                  const std::string& part) {
  const std::size_t equals = part.find('=');
  if (equals != std::string::npos) return {part.substr(0, equals), part.substr(equals + 1)};
  if (part == "causal") return {part, "1"};
  if (spec.pattern == "file" && !spec.parameters.contains("path")) return {"path", part};
  fail_mask(text, fmt::format("'{}': expected parameter=value", part));
}

}  // namespace

[[noreturn]] void fail_mask(std::string_view mask, std::string_view reason) {
  throw base::UsageError(fmt::format("--mask {}: {}", mask, reason));
}

std::int64_t number_of(std::string_view text) {
  if (const auto number = base::parse_int(text)) return *number;
  throw base::InternalError(fmt::format("mask parameter '{}' is not a number", text));
}

std::int64_t value_of(const MaskSpec& spec, const std::string& name) {
  return number_of(spec.parameters.at(name));
}

const std::string* find_length_parameter(const MaskSpec& spec, std::string_view which) {
  const std::string prefix = spec.pattern == "padding" ? "" : "padding_";
  const auto found = spec.parameters.find(prefix + std::string(which));
  return found == spec.parameters.end() ? nullptr : &found->second;
}

std::string mask_file_digest(const std::string& path) {
  const std::vector<std::int64_t> shape = npy_booleans_shape(path);
  const auto too_long = [](std::int64_t size) { return size > kMostPositions; };
  if (shape.size() < 2 || shape.size() > 3 || std::any_of(shape.end() - 2, shape.end(), too_long))
    fail_mask("file", fmt::format("{} has shape ({}); expected (S, S) or (B, S, S), S at most {}", path,
                                  fmt::join(shape, ", "), kMostPositions));
  return base::hash_hex(base::read_file(path));
}

std::span<const MaskPatternInfo> mask_patterns() {
  static const std::vector<MaskPatternInfo> rows = [] {
    std::vector<MaskPatternInfo> list;
    for (const PatternRule& rule : pattern_rules()) list.push_back(rule.info);
    return list;
  }();
  return rows;
}

MaskSpec MaskSpec::parse(std::string_view text) {
  const std::size_t colon = text.find(':');
  MaskSpec spec;
  spec.pattern = std::string(text.substr(0, colon));
  if (colon == std::string_view::npos) return spec.canonical();
  const PatternRule& rule = find_pattern(spec.pattern);
  for (const std::string& part : split_parameters(text.substr(colon + 1))) {
    const auto [key, value] = key_and_value(spec, text, part);
    find_parameter(rule, key);
    if (!spec.parameters.emplace(key, value).second) fail_mask(text, fmt::format("{} is given twice", key));
  }
  return spec.canonical();
}

MaskSpec MaskSpec::from_research_id(int id) {
  constexpr std::array<const char*, 3> kPatterns{"causal", "strided", "fixed"};
  if (id < 0 || id > 2) {
    throw base::UsageError(fmt::format("--mask-id {}: expected 0 (causal), 1 (strided) or 2 (fixed)", id));
  }
  return MaskSpec{kPatterns[id], {}};
}

MaskSpec MaskSpec::canonical() const {
  const PatternRule& rule = find_pattern(pattern);
  MaskSpec spec{pattern, {}};
  for (const auto& [key, value] : parameters) {
    spec.parameters[key] = check_value(pattern, find_parameter(rule, key), value);
  }
  for (const ParameterRule& parameter : rule.parameters) {
    if (!parameter.default_text.empty())
      spec.parameters.try_emplace(std::string(parameter.name), parameter.default_text);
  }
  unify_spelling(spec);
  check_padding(spec, pattern);
  if (pattern == "file") {
    if (!spec.parameters.contains("path")) fail_mask(pattern, "expected path=FILE.npy");
    if (!spec.parameters.contains("digest"))
      spec.parameters["digest"] = mask_file_digest(spec.parameters["path"]);
  }
  return spec;
}

std::string MaskSpec::to_string() const {
  const MaskSpec spec = canonical();
  std::string text = spec.pattern;
  char separator = ':';
  for (const auto& [key, value] : spec.parameters) {
    text += fmt::format("{}{}={}", separator, key, escape(value));
    separator = ',';
  }
  return text;
}

}  // namespace fusetune::block
