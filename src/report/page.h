// One self-contained HTML page: works from file://, refers to nothing outside itself.
//
// Sections are HTML made here from escaped text; numbers for the charts stand beside them as one JSON object,
// which templates/report/charts.js draws with Chart.js. The page's policy lets only these scripts run (by a
// nonce) and nothing be loaded, so that even a value that slipped through unescaped could not do anything.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "report/table.h"

namespace fusetune::report {

class Page {
 public:
  /// `title` is also the heading.
  explicit Page(std::string title);

  // Each adds to the page's end, escaped.
  void heading(std::string_view text);
  void paragraph(std::string_view text);
  /// In a fixed-width font, lines as they are.
  void verbatim(std::string_view text);
  void table(const Table& table);
  /// A table that is shown when it is asked for.
  void folded_table(std::string_view summary, const Table& table);
  /// Room for the chart that charts.js draws into the element of this name; `caption` says what it shows.
  void chart(std::string_view name, std::string_view caption);

  /// The whole file. `data`: what the charts are drawn from; `kind` in it names the functions that draw.
  std::string to_html(const nlohmann::ordered_json& data) const;

 private:
  std::string title_, body_;
};

}  // namespace fusetune::report
