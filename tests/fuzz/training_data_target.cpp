// The notes' training file: what was read reads back from its own text.
#include "model/training_data.h"
#include "plan/fusion_plan.h"
#include "target.h"

namespace fusetune::fuzz {

std::vector<std::string> fuzz_seeds() {
  return {"0100010111011101   54.524\n",
          "\xef\xbb\xbf# plans\r\n0000000000000000\t1e-3\r\n\r\n1111111111111111 7",
          "0100010111011101 3\n0100010111011101 2 # again\n1100010111011101 nan\n0000000000000001 0\n"};
}

namespace {

void check_row(const model::MeasuredMask& row, const model::MeasuredMask& again) {
  require(again.value == row.value && again.values == row.values, "values read back");
  require(plan::FusionPlan::from_mask(again.mask) == plan::FusionPlan::from_mask(row.mask),
          "plans read back");
}

}  // namespace
}  // namespace fusetune::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace fusetune;
  const std::string_view text = fuzz::text_of(data, size);
  const auto read = fuzz::accepted([&] { return model::parse_training_data(text, "input"); });
  if (!read) return 0;
  std::size_t values = 0;
  for (const model::MeasuredMask& row : read->rows) values += row.values.size();
  fuzz::require(static_cast<std::size_t>(read->lines - read->left_out()) == values,
                "every usable line counts");
  const std::string written = model::format_training_data(read->rows);
  const auto again = fuzz::accepted([&] { return model::parse_training_data(written, "again"); });
  fuzz::require(again && again->rows.size() == read->rows.size(), "plans read back: " + written);
  for (std::size_t i = 0; i < read->rows.size(); ++i) fuzz::check_row(read->rows[i], again->rows[i]);
  return 0;
}
