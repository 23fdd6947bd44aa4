// The research notes' training file: one measured mask a line, sixteen binary digits and a value.
//
//     0100010111011101   54.524
//
// Any run of spaces and tabs separates the two. A byte order mark, "\r\n", blank lines and '#' comments are
// fine. The value is a time in whatever unit the file has; smaller is better. The same as JSON (json_rows.h),
// each mask with its "value", is read too.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plan/fusion_mask.h"

namespace fusetune::model {

/// One plan of the file.
struct MeasuredMask {
  plan::FusionMask mask;       // as written, of the smallest value where several lines name the plan
  double value = 0;            // the smallest of `values`: finite and above 0
  std::vector<double> values;  // every usable value of this plan, in the file's order
};

struct TrainingData {
  std::vector<MeasuredMask> rows;  // one a plan, in the order of their first lines
  int lines = 0;                   // with a mask and a value, usable or not
  int not_finite = 0;              // lines left out: nan, inf
  int not_positive = 0;            // lines left out: 0 or below
  int duplicates = 0;              // lines that name a plan which an earlier usable line names

  int left_out() const { return not_finite + not_positive; }
  /// "813 lines: 800 plans; left out 3 (2 not finite, 1 not above 0); 10 repeat a plan, the smallest value
  /// counts"
  std::string summary() const;
};

/// `source` names the text in errors. Two masks that name the same plan are the same plan. Throws
/// base::UsageError with "source:line: what, why" of the bad lines: a mask that is not sixteen binary digits,
/// a missing value, a value that is no number in the C locale ("1,5"), a third word; of JSON the first bad
/// line.
TrainingData parse_training_data(std::string_view text, std::string_view source);

/// The file's content, parsed. Throws base::EnvironmentError where it cannot be read, and as
/// parse_training_data() does.
TrainingData read_training_data(const std::filesystem::path& path);

/// The text that parse_training_data() reads back: one line a value, with all its digits.
std::string format_training_data(std::span<const MeasuredMask> rows);

}  // namespace fusetune::model
