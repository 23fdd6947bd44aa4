// Text that others wrote, made safe to stand in a page.
//
// Device names, compiler messages and commands in a database may say anything. Whatever enters a page goes
// through one of these two; nothing else builds HTML from values.
#pragma once

#include <string>
#include <string_view>

namespace fusetune::report {

/// As the content of an element or of a quoted attribute: & < > " ' are entities. Control characters other
/// than tab and line end, which HTML does not have, become U+FFFD.
std::string escape_html(std::string_view text);

/// JSON text as the content of a <script>: < > & and the two line separators that JavaScript took for line
/// ends are \u escapes, which mean the same in JSON, so that nothing ends the element early.
std::string escape_script(std::string_view json);

}  // namespace fusetune::report
