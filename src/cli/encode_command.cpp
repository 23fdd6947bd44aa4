// encode: segments to the canonical mask.
#include <fmt/core.h>

#include "base/log.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/segment_argument.h"

namespace fusetune::cli {

int run_encode(Options& options) {
  std::vector<std::string> words;
  bool hand_written = false;
  RowsOutput output;
  options.texts(
      "--segment", words, "FIRST-LAST ...",
      "operators that share a kernel, as mask positions 1 to 15; operators in no segment run alone");
  options.flag("--hand-written", hand_written, "the hand-written attention runs positions 3 to 7");
  output.declare(options);
  options.parse();

  std::vector<plan::Segment> segments;
  for (const std::string& word : words) segments.push_back(parse_segment(word));
  const plan::FusionMask mask = plan::encode(segments, hand_written);
  const plan::FusionPlan plan = plan::FusionPlan::from_mask(mask);
  if (hand_written && !plan.hand_written())
    base::note("note: --hand-written has no effect: no segment holds positions 3 to 7");

  report::Table table({{"mask", "mask"}, {"binary", "binary"}, {"plan", "plan"}});
  table.add({std::int64_t{mask.value}, mask.to_binary(), plan.to_string()});
  if (!output.write(table)) print(fmt::format("{} {} {}\n", mask.value, mask.to_binary(), plan.to_string()));
  return kDone;
}

}  // namespace fusetune::cli
