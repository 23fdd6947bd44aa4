// Masks, with or without values, as JSON: one array, or one JSON value a line.
//
//     [48996, "0010101010101010", {"mask": 0}, {"bits": "1011111101100100", "value": 54.524}]
//
// A mask is a number, a text that plan::parse_mask() reads, or an object that has one as "mask", or sixteen
// binary digits as "bits". Other keys are ignored.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "plan/fusion_mask.h"

namespace fusetune::model {

struct JsonRow {
  int line = 0;
  plan::FusionMask mask;
  std::optional<double> value;  // of the object's "value"; NaN where that is null
};

/// Behind a byte order mark and blanks it begins as such a file does, and as no file of plain lines.
bool is_json(std::string_view text);

/// In the file's order. `source` names the text in errors. Throws base::UsageError, "source:line: what, why",
/// for the first thing that is no JSON or no mask, for "mask" and "bits" that differ, and for a value that is
/// no number.
std::vector<JsonRow> parse_json_rows(std::string_view text, std::string_view source);

}  // namespace fusetune::model
