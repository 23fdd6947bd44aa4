#include "report/html.h"

namespace fusetune::report {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD
constexpr std::string_view kLineSeparator = "\xe2\x80\xa8", kParagraphSeparator = "\xe2\x80\xa9";

bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (byte < 0x20 && c != '\t' && c != '\n' && c != '\r') || byte == 0x7f;
}

std::string_view entity(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&quot;";
    case '\'':
      return "&#39;";
    default:
      return {};
  }
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (const std::string_view name = entity(c); !name.empty())
      escaped += name;
    else if (is_control(c))
      escaped += kReplacement;
    else
      escaped += c;
  }
  return escaped;
}

std::string escape_script(std::string_view json) {
  std::string escaped;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const std::string_view rest = json.substr(i);
    if (rest.starts_with(kLineSeparator) || rest.starts_with(kParagraphSeparator)) {
      escaped += rest.starts_with(kLineSeparator) ? "\\u2028" : "\\u2029";
      i += kLineSeparator.size() - 1;
    } else if (json[i] == '<') {
      escaped += "\\u003c";
    } else if (json[i] == '>') {
      escaped += "\\u003e";
    } else if (json[i] == '&') {
      escaped += "\\u0026";
    } else {
      escaped += json[i];
    }
  }
  return escaped;
}

}  // namespace fusetune::report
