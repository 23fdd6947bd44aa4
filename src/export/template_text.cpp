#include "export/template_text.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"

namespace fusetune::exporting {
namespace {

bool is_word(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
  });
}

}  // namespace

std::string fill_template(std::string_view text, const Values& values, Values* unused) {
  std::string result;
  while (true) {
    const std::size_t open = text.find('@');
    result += text.substr(0, open);
    if (open == std::string_view::npos) return result;
    const std::size_t close = text.find('@', open + 1);
    const std::string_view name =
        close == std::string_view::npos ? std::string_view() : text.substr(open + 1, close - open - 1);
    if (!is_word(name)) {  // an at sign of the text's own
      result += '@';
      text.remove_prefix(open + 1);
      continue;
    }
    const auto value = values.find(name);
    if (value == values.end())
      throw base::InternalError("a template has the unknown placeholder @" + std::string(name) + "@");
    result += value->second;
    if (unused != nullptr) unused->erase(value->first);
    text.remove_prefix(close + 1);
  }
}

}  // namespace fusetune::exporting
