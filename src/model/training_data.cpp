#include "model/training_data.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/file.h"
#include "base/number.h"
#include "base/text.h"
#include "model/json_rows.h"
#include "plan/fusion_plan.h"

namespace fusetune::model {
namespace {

constexpr std::size_t kMaskDigits = 16;
/// Bad lines that an error names one by one.
constexpr std::size_t kNamedLines = 5;

std::vector<std::string_view> words_of(std::string_view line) {
  constexpr std::string_view kBlank = " \t";
  std::vector<std::string_view> words;
  for (std::size_t at = line.find_first_not_of(kBlank); at != std::string_view::npos;) {
    const std::size_t end = std::min(line.find_first_of(kBlank, at), line.size());
    words.push_back(line.substr(at, end - at));
    at = line.find_first_not_of(kBlank, end);
  }
  return words;
}

struct Line {
  plan::FusionMask mask;
  double value = 0;
};

/// What is wrong with a line's words; empty where `line` was set.
std::string read_line(std::span<const std::string_view> words, Line& line) {
  // No other spelling of masks: "1010" is a decimal elsewhere, and would be a cut-off mask here.
  if (words[0].size() != kMaskDigits || words[0].find_first_not_of("01") != std::string_view::npos)
    return fmt::format("{} is no mask, expected sixteen binary digits", base::quote_for_message(words[0]));
  if (words.size() == 1) return fmt::format("{} has no value behind it", base::quote_for_message(words[0]));
  if (words.size() > 2)
    return fmt::format("{} is one word too many, expected a mask and a value",
                       base::quote_for_message(words[2]));
  const auto value = base::parse_double(words[1]);
  if (!value)
    return fmt::format("{} is no number, expected one like 54.524", base::quote_for_message(words[1]));
  line = {plan::parse_mask(words[0]), *value};
  return {};
}

class Collector {
 public:
  void add(const Line& line) {
    ++data_.lines;
    if (!std::isfinite(line.value)) {
      ++data_.not_finite;
    } else if (line.value <= 0) {
      ++data_.not_positive;
    } else {
      add_usable(line);
    }
  }
  TrainingData take() { return std::move(data_); }

 private:
  void add_usable(const Line& line) {
    const auto plan = plan::FusionPlan::from_mask(line.mask);
    const auto [place, is_new] = row_of_.try_emplace(plan, data_.rows.size());
    if (is_new) {
      data_.rows.push_back({line.mask, line.value, {line.value}});
      return;
    }
    ++data_.duplicates;
    MeasuredMask& row = data_.rows[place->second];
    row.values.push_back(line.value);
    if (line.value >= row.value) return;
    row.value = line.value;
    row.mask = line.mask;
  }

  TrainingData data_;
  std::map<plan::FusionPlan, std::size_t> row_of_;
};

TrainingData from_json(std::string_view text, std::string_view source) {
  Collector collector;
  for (const JsonRow& row : parse_json_rows(text, source)) {
    if (!row.value)
      throw base::UsageError(
          fmt::format("{}:{}: mask {} has no \"value\" beside it", source, row.line, row.mask.value));
    collector.add({row.mask, *row.value});
  }
  return collector.take();
}

[[noreturn]] void fail(const std::vector<std::string>& bad) {
  std::string text;
  for (std::size_t i = 0; i < std::min(bad.size(), kNamedLines); ++i) text += (i == 0 ? "" : "\n") + bad[i];
  if (bad.size() > kNamedLines) text += fmt::format("\nand {} more bad lines", bad.size() - kNamedLines);
  throw base::UsageError(text);
}

}  // namespace

std::string TrainingData::summary() const {
  std::string text = fmt::format("{} lines: {} plans", lines, rows.size());
  if (left_out() > 0)
    text +=
        fmt::format("; left out {} ({} not finite, {} not above 0)", left_out(), not_finite, not_positive);
  if (duplicates > 0)
    text += fmt::format("; {} repeat a plan, of which the smallest value counts", duplicates);
  return text;
}

TrainingData parse_training_data(std::string_view text, std::string_view source) {
  if (is_json(text)) return from_json(text, source);
  text = base::without_byte_order_mark(text);
  Collector collector;
  std::vector<std::string> bad;
  int number = 0;
  for (const std::string& whole : base::split(text, '\n')) {
    ++number;
    const std::string_view content = base::trim(std::string_view(whole).substr(0, whole.find('#')));
    if (content.empty()) continue;
    Line line;
    const std::string wrong = read_line(words_of(content), line);
    if (wrong.empty())
      collector.add(line);
    else
      bad.push_back(fmt::format("{}:{}: {}", source, number, wrong));
  }
  if (!bad.empty()) fail(bad);
  return collector.take();
}

TrainingData read_training_data(const std::filesystem::path& path) {
  return parse_training_data(base::read_file(path), path.string());
}

std::string format_training_data(std::span<const MeasuredMask> rows) {
  std::string text;
  for (const MeasuredMask& row : rows)
    for (const double value : row.values)
      text += row.mask.to_binary() + " " + base::format_shortest(value) + "\n";
  return text;
}

}  // namespace fusetune::model
