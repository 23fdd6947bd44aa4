#include "model/json_rows.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "base/text.h"

namespace fusetune::model {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kBlank = " \t\r\n";
constexpr std::size_t kMaskDigits = 16;

/// One JSON value of the file, and where it begins.
struct Piece {
  std::string_view text;
  int line = 0;
};

[[noreturn]] void fail(std::string_view source, int line, const std::string& what) {
  throw base::UsageError(fmt::format("{}:{}: {}", source, line, what));
}

/// Finds where an array's elements begin and end; whether they are JSON is the library's to say, which does
/// not tell lines.
class ArraySplitter {
 public:
  ArraySplitter(std::string_view text, std::string_view source) : text_(text), source_(source) {}

  /// `open`: where the '[' is.
  std::vector<Piece> split(std::size_t open) {
    line_ = 1 + static_cast<int>(std::count(text_.begin(), text_.begin() + static_cast<long>(open), '\n'));
    begin(open + 1);
    for (at_ = open + 1; at_ < text_.size(); ++at_) {
      if (in_string_) {
        skip_in_string();
      } else if (step()) {
        return close();
      }
    }
    fail(source_, line_, "the array that begins with '[' has no end");
  }

 private:
  void begin(std::size_t at) {
    start_ = at;
    start_line_ = 0;
  }
  void end_piece() { pieces_.push_back({base::trim(text_.substr(start_, at_ - start_)), start_line_}); }

  void skip_in_string() {
    if (text_[at_] == '\\')
      ++at_;
    else if (text_[at_] == '"')
      in_string_ = false;
  }

  /// True at the ']' that ends the array.
  bool step() {
    const char c = text_[at_];
    if (c == '\n') ++line_;
    if (start_line_ == 0 && kBlank.find(c) == std::string_view::npos) start_line_ = line_;
    if (c == '"') in_string_ = true;
    if (c == '[' || c == '{') ++depth_;
    if (depth_ == 0 && c == ']') return true;
    if (c == ']' || c == '}') --depth_;
    if (depth_ == 0 && c == ',') {
      end_piece();
      begin(at_ + 1);
    }
    return false;
  }

  std::vector<Piece> close() {
    end_piece();
    if (pieces_.size() == 1 && pieces_[0].text.empty()) pieces_.clear();
    if (!base::trim(text_.substr(at_ + 1)).empty())
      fail(source_, line_, "something follows the array, which is the whole file");
    return std::move(pieces_);
  }

  std::string_view text_, source_;
  std::size_t at_ = 0, start_ = 0;
  int line_ = 1, start_line_ = 0, depth_ = 0;
  bool in_string_ = false;
  std::vector<Piece> pieces_;
};

std::vector<Piece> lines_of(std::string_view text) {
  std::vector<Piece> pieces;
  int line = 0;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    ++line;
    const std::string_view content = base::trim(text.substr(at, end - at));
    if (!content.empty()) pieces.push_back({content, line});
    at = end + 1;
  }
  return pieces;
}

/// A value as it may stand in an error message: short, without control characters.
std::string shown(const Json& json) {
  constexpr std::size_t kLongest = 60;
  const std::string text = json.dump(-1, ' ', true, Json::error_handler_t::replace);
  return text.size() > kLongest ? text.substr(0, kLongest) + "..." : text;
}

/// nullopt: it is none.
std::optional<plan::FusionMask> mask_of(const Json& json) {
  if (json.is_number_integer()) {
    const bool fits = json.is_number_unsigned() && json.get<std::uint64_t>() <= 0xffff;
    return fits ? std::optional(plan::FusionMask{json.get<std::uint16_t>()}) : std::nullopt;
  }
  if (!json.is_string()) return std::nullopt;
  try {
    return plan::parse_mask(json.get_ref<const std::string&>());
  } catch (const base::UsageError&) {
    return std::nullopt;
  }
}

std::optional<plan::FusionMask> mask_of_bits(const Json& json) {
  const bool fits = json.is_string() && json.get_ref<const std::string&>().size() == kMaskDigits;
  return fits ? mask_of(json) : std::nullopt;  // of sixteen characters parse_mask() takes binary digits only
}

plan::FusionMask mask_of_object(const Json& json, std::string_view source, int line) {
  std::optional<plan::FusionMask> mask;
  if (const auto named = json.find("mask"); named != json.end()) {
    mask = mask_of(*named);
    if (!mask)
      fail(source, line,
           fmt::format("\"mask\" is {}, expected a number from 0 to 65535 or sixteen binary digits",
                       shown(*named)));
  }
  if (const auto bits = json.find("bits"); bits != json.end()) {
    const auto of_bits = mask_of_bits(*bits);
    if (!of_bits)
      fail(source, line, fmt::format("\"bits\" is {}, expected sixteen binary digits", shown(*bits)));
    if (mask && *mask != *of_bits)
      fail(source, line, fmt::format("\"mask\" and \"bits\" of {} name different masks", shown(json)));
    mask = of_bits;
  }
  if (!mask) fail(source, line, fmt::format("{} has neither \"mask\" nor \"bits\"", shown(json)));
  return *mask;
}

JsonRow row_of(const Json& json, std::string_view source, int line) {
  if (json.is_object()) {
    JsonRow row{line, mask_of_object(json, source, line), {}};
    const auto value = json.find("value");
    if (value == json.end()) return row;
    if (!value->is_number() && !value->is_null())
      fail(source, line, fmt::format("\"value\" is {}, expected a number", shown(*value)));
    row.value = value->is_null() ? std::numeric_limits<double>::quiet_NaN() : value->get<double>();
    return row;
  }
  const auto mask = mask_of(json);
  if (!mask)
    fail(source, line,
         fmt::format("{} is no mask, expected a number from 0 to 65535, sixteen binary digits as text, or an "
                     "object with \"mask\" or \"bits\"",
                     shown(json)));
  return {line, *mask, {}};
}

}  // namespace

bool is_json(std::string_view text) {
  text = base::without_byte_order_mark(text);
  const std::size_t first = text.find_first_not_of(kBlank);
  return first != std::string_view::npos &&
         std::string_view("[{\"").find(text[first]) != std::string_view::npos;
}

std::vector<JsonRow> parse_json_rows(std::string_view text, std::string_view source) {
  text = base::without_byte_order_mark(text);
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  const std::vector<Piece> pieces =
      text[first] == '[' ? ArraySplitter(text, source).split(first) : lines_of(text);
  std::vector<JsonRow> rows;
  for (const Piece& piece : pieces) {
    const Json json = Json::parse(piece.text, nullptr, false);
    if (json.is_discarded())
      fail(source, std::max(piece.line, 1), "not JSON: expected an array, or one value on each line");
    rows.push_back(row_of(json, source, piece.line));
  }
  return rows;
}

}  // namespace fusetune::model
