// space: counts the plans there are, and lists them.
#include <fmt/core.h>

#include <algorithm>
#include <bitset>

#include "cli/command.h"
#include "cli/output.h"
#include "cli/plan_filter.h"

namespace fusetune::cli {
namespace {

report::Table counts(const std::vector<NamedPlan>& plans, const MaskRange& range) {
  std::bitset<1 << (block::kOperatorCount - 1)> segmentations;
  std::bitset<plan::kVariantCount> variants;
  std::int64_t hand_written = 0;
  for (const NamedPlan& named : plans) {
    segmentations[named.plan.borders()] = true;
    hand_written += named.plan.hand_written();
    for (const plan::SegmentVariant& variant : named.plan.variants())
      variants[plan::variant_index(variant)] = true;
  }
  report::Table table({{"masks", "masks"},
                       {"segmentations", "segmentations"},
                       {"plans", "plans"},
                       {"hand_written_plans", "with hand-written attention"},
                       {"segment_variants", "segment variants"}});
  table.add({std::int64_t{range.end} - range.begin, static_cast<std::int64_t>(segmentations.count()),
             static_cast<std::int64_t>(plans.size()), hand_written,
             static_cast<std::int64_t>(variants.count())});
  return table;
}

report::Table list(const std::vector<NamedPlan>& plans) {
  report::Table table({{"mask", "mask"},
                       {"binary", "binary"},
                       {"canonical_mask", "canonical"},
                       {"kernels", "kernels"},
                       {"plan", "plan"}});
  for (const NamedPlan& named : plans)
    table.add({std::int64_t{named.mask.value}, named.mask.to_binary(),
               std::int64_t{named.plan.canonical_mask().value}, std::int64_t{named.plan.kernel_count()},
               named.plan.to_string()});
  return table;
}

}  // namespace

int run_space(Options& options) {
  bool listed = false;
  std::string range_text = "0:65536";
  std::vector<std::string> filter_texts;
  RowsOutput output;
  options.flag("--list", listed, "list the plans, not only count them");
  options.text("--range", range_text, "A:B", "plans named by masks from A up to but not including B");
  options.texts("--filter", filter_texts, "FILTER",
                "kernels<=N, handwritten, has:FIRST-LAST (operators 0 to 14); "
                "! before one is its opposite; several must all hold");
  output.declare(options);
  options.parse();

  const MaskRange range = parse_range(range_text);
  std::vector<NamedPlan> plans = plans_in(range);
  for (const std::string& text : filter_texts)
    std::erase_if(plans,
                  [filter = parse_filter(text)](const NamedPlan& named) { return !filter(named.plan); });

  const report::Table table = listed ? list(plans) : counts(plans, range);
  if (!output.write(table)) print(table.to_text());
  return kDone;
}

}  // namespace fusetune::cli
