#include "report/table.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/number.h"
#include "report/html.h"
#include "report/text_width.h"

namespace fusetune::report {
namespace {

template <typename... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
template <typename... Functions>  // clang before 17 does not deduce an aggregate's arguments by itself
Overloaded(Functions...)->Overloaded<Functions...>;

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

/// `number` turns a finite double into text; everything else is the same in text and in CSV.
template <typename Number>
std::string cell_text(const Cell& cell, Number number) {
  return std::visit(
      Overloaded{[](std::monostate) { return std::string(); }, [](const std::string& text) { return text; },
                 [](std::int64_t value) { return std::to_string(value); },
                 [&](double value) { return std::isfinite(value) ? number(value) : std::string(); },
                 [](bool value) { return std::string(value ? "yes" : "no"); },
                 [](const std::vector<std::string>& words) { return join(words); }},
      cell);
}

nlohmann::ordered_json cell_json(const Cell& cell) {
  using nlohmann::ordered_json;
  return std::visit(
      Overloaded{[](std::monostate) { return ordered_json(nullptr); },
                 [](double value) { return std::isfinite(value) ? ordered_json(value) : nullptr; },
                 [](const auto& value) { return ordered_json(value); }},
      cell);
}

bool is_number(const Cell& cell) {
  return std::holds_alternative<std::int64_t>(cell) || std::holds_alternative<double>(cell);
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

void append_aligned(std::string& line, const std::string& text, std::size_t width, bool to_the_right) {
  const std::string padding(width - text_width(text), ' ');
  line += to_the_right ? padding + text : text + padding;
}

}  // namespace

Table::Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

void Table::add(std::vector<Cell> row) {
  if (row.size() != columns_.size())
    throw base::InternalError("a table row has " + std::to_string(row.size()) + " cells for " +
                              std::to_string(columns_.size()) + " columns");
  rows_.push_back(std::move(row));
}

std::string Table::to_text() const {
  std::vector<std::vector<std::string>> lines(1);
  for (const Column& column : columns_) lines[0].push_back(column.heading);
  for (const auto& row : rows_) {
    lines.emplace_back();
    for (std::size_t c = 0; c < row.size(); ++c)
      lines.back().push_back(
          cell_text(row[c], [&](double value) { return base::format_fixed(value, columns_[c].digits); }));
  }

  std::vector<std::size_t> widths(columns_.size(), 0);
  std::vector<bool> to_the_right(columns_.size(), false);
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    for (const auto& line : lines) widths[c] = std::max(widths[c], text_width(line[c]));
    to_the_right[c] =
        std::any_of(rows_.begin(), rows_.end(), [c](const auto& row) { return is_number(row[c]); });
  }

  std::string text;
  for (const auto& cells : lines) {
    std::string line;
    for (std::size_t c = 0; c < cells.size(); ++c) {
      if (c > 0) line += "  ";
      append_aligned(line, cells[c], widths[c], to_the_right[c]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string Table::to_csv() const {
  std::string text;
  for (std::size_t c = 0; c < columns_.size(); ++c) text += (c > 0 ? "," : "") + csv_field(columns_[c].key);
  text += "\n";
  for (const auto& row : rows_) {
    for (std::size_t c = 0; c < row.size(); ++c)
      text += (c > 0 ? "," : "") + csv_field(cell_text(row[c], base::format_shortest));
    text += "\n";
  }
  return text;
}

std::string Table::to_json() const {
  std::string text = "[";
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    nlohmann::ordered_json object = nlohmann::ordered_json::object();
    for (std::size_t c = 0; c < columns_.size(); ++c) object[columns_[c].key] = cell_json(rows_[r][c]);
    // Compiler output and file names may hold bytes that are not UTF-8: replaced, never an exception.
    text += (r > 0 ? ",\n " : "\n ") +
            object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  }
  return text + (rows_.empty() ? "]\n" : "\n]\n");
}

std::string Table::to_html() const {
  std::string text = "<table>\n<thead><tr>";
  for (const Column& column : columns_) text += "<th>" + escape_html(column.heading) + "</th>";
  text += "</tr></thead>\n<tbody>\n";
  for (const auto& row : rows_) {
    text += "<tr>";
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::string cell =
          cell_text(row[c], [&](double value) { return base::format_fixed(value, columns_[c].digits); });
      text += (is_number(row[c]) ? "<td class=\"number\">" : "<td>") + escape_html(cell) + "</td>";
    }
    text += "</tr>\n";
  }
  return text + "</tbody>\n</table>\n";
}

}  // namespace fusetune::report
