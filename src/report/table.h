// Rows of results, written as aligned text, CSV, JSON or HTML.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace fusetune::report {

/// Nothing, text, whole number, number (written by its column's digits in text, all digits elsewhere), truth
/// value, or a list of words (an array in JSON, joined by spaces elsewhere).
using Cell = std::variant<std::monostate, std::string, std::int64_t, double, bool, std::vector<std::string>>;

struct Column {
  std::string key;      // in CSV and JSON, snake_case with its unit: "median_us"
  std::string heading;  // in text
  int digits = 3;       // of numbers in text
};

class Table {
 public:
  explicit Table(std::vector<Column> columns);
  /// Throws base::InternalError unless there is one cell per column.
  void add(std::vector<Cell> row);
  std::size_t size() const { return rows_.size(); }

  /// Headings and rows with columns aligned (numbers to the right), two spaces apart, no trailing spaces.
  std::string to_text() const;
  /// RFC 4180 with a header line and "\n" line ends; empty cells where there is nothing or a number is not
  /// finite.
  std::string to_csv() const;
  /// An array of objects, one per line; null where there is nothing or a number is not finite.
  std::string to_json() const;
  /// A <table>, every cell escaped; numbers as in text.
  std::string to_html() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace fusetune::report
