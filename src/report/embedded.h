// What a page is made of beside values: templates/report and Chart.js, embedded at build time by
// codegen/embed.cmake.
#pragma once

#include <span>
#include <string_view>

namespace fusetune::report {

struct EmbeddedFile {
  std::string_view path;  // its name alone, e.g. "charts.js"
  std::string_view text;
};
std::span<const EmbeddedFile> embedded_files();

}  // namespace fusetune::report
