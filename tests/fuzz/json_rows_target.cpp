// Masks and values as JSON: what was read reads back from its own text, in either form.
#include "model/json_rows.h"

#include <algorithm>
#include <cmath>

#include "base/number.h"
#include "target.h"

namespace fusetune::fuzz {

std::vector<std::string> fuzz_seeds() {
  return {"[48996, \"0010101010101010\", {\"mask\": 7, \"value\": 1e-3}]",
          "{\"bits\": \"1011111101100100\", \"value\": 54.5}\n\n{\"mask\": \"0x45dd\", \"value\": null}\n",
          "\xef\xbb\xbf [\n1,\n{\"mask\": 2, \"note\": \"a, ]\\\"\"}\n]\n"};
}

namespace {

std::string text_of_row(const model::JsonRow& row) {
  std::string text = "{\"mask\": " + std::to_string(row.mask.value);
  if (row.value)
    text += ", \"value\": " + (std::isfinite(*row.value) ? base::format_shortest(*row.value) : "null");
  return text + "}";
}

void require_same(const std::vector<model::JsonRow>& rows, const std::string& text) {
  const auto again = accepted([&] { return model::parse_json_rows(text, "again"); });
  require(again && again->size() == rows.size(), "rows read back: " + text);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const model::JsonRow &a = rows[i], &b = (*again)[i];
    const bool same_value =
        a.value == b.value || (a.value && b.value && std::isnan(*a.value) && std::isnan(*b.value));
    require(a.mask == b.mask && same_value, "a row reads back: " + text);
  }
}

}  // namespace
}  // namespace fusetune::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace fusetune;
  const std::string_view text = fuzz::text_of(data, size);
  const auto rows = fuzz::accepted([&] { return model::parse_json_rows(text, "input"); });
  if (!rows) return 0;
  const auto lines = 1 + std::count(text.begin(), text.end(), '\n');
  std::string array = "[", by_line;
  for (const model::JsonRow& row : *rows) {
    fuzz::require(row.line >= 1 && row.line <= lines, "a row is on a line of the file");
    const std::string own = fuzz::text_of_row(row);
    array += (array.size() > 1 ? ",\n" : "") + own;
    by_line += own + "\n";
  }
  fuzz::require_same(*rows, array + "]");
  fuzz::require_same(*rows, by_line);
  return 0;
}
