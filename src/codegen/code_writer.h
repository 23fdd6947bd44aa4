// Indented lines of generated code.
#pragma once

#include <fmt/format.h>

#include <string>

namespace fusetune::codegen {

class CodeWriter {
 public:
  explicit CodeWriter(int depth) : depth_(depth) {}

  template <class... Arguments>
  void line(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    append(fmt::format(format, std::forward<Arguments>(arguments)...));
  }
  /// A line that ends in " {"; what follows is indented until close().
  template <class... Arguments>
  void open(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    append(fmt::format(format, std::forward<Arguments>(arguments)...) + " {");
    ++depth_;
  }
  /// A bare scope with a comment behind its brace.
  template <class... Arguments>
  void open_comment(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    append("{  // " + fmt::format(format, std::forward<Arguments>(arguments)...));
    ++depth_;
  }
  void close(std::string_view tail = "") {
    --depth_;
    append("}" + std::string(tail));
  }
  const std::string& text() const { return text_; }

 private:
  void append(const std::string& line) { text_ += std::string(2 * depth_, ' ') + line + "\n"; }

  int depth_;
  std::string text_;
};

}  // namespace fusetune::codegen
