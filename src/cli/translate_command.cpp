// translate: masks to the research notes' one-line translation, to rows, or to a drawing.
#include <fmt/core.h>

#include "base/error.h"
#include "cli/command.h"
#include "cli/mask_arguments.h"
#include "cli/output.h"
#include "plan/fusion_plan.h"
#include "report/block_drawing.h"

namespace fusetune::cli {
namespace {

std::vector<std::string> fused_positions(const plan::FusionPlan& plan) {
  std::vector<std::string> words;
  for (const plan::Segment& segment : plan.segments())
    if (segment.size() > 1) words.push_back(fmt::format("{}-{}", segment.first + 1, segment.last + 1));
  return words;
}

report::Table rows(const std::vector<plan::FusionMask>& masks) {
  report::Table table({{"mask", "mask"},
                       {"binary", "binary"},
                       {"pos0", "pos0"},
                       {"fused_positions", "fused positions"},
                       {"kernels", "kernels"},
                       {"plan", "plan"},
                       {"canonical_mask", "canonical mask"}});
  for (const plan::FusionMask mask : masks) {
    const plan::FusionPlan plan = plan::FusionPlan::from_mask(mask);
    table.add({std::int64_t{mask.value}, mask.to_binary(), std::int64_t{mask.bit(0)}, fused_positions(plan),
               std::int64_t{plan.kernel_count()}, plan.to_string(),
               std::int64_t{plan.canonical_mask().value}});
  }
  return table;
}

std::string flag_note(plan::FusionMask mask, const plan::FusionPlan& plan) {
  if (plan.hand_written()) return "hand-written attention (pos0 = 1)";
  if (mask.bit(0) == 1) return "pos0 = 1 has no effect: no single kernel holds operators 2 to 6";
  return "generated attention (pos0 = 0)";
}

std::string explain(plan::FusionMask mask) {
  const plan::FusionPlan plan = plan::FusionPlan::from_mask(mask);
  return fmt::format("mask {} = {}   canonical {}\nplan {}   {} kernel{}   {}\n{}\n", mask.value,
                     mask.to_binary(), plan.canonical_mask().value, plan.to_string(), plan.kernel_count(),
                     plan.kernel_count() == 1 ? "" : "s", flag_note(mask, plan), report::draw_block(plan));
}

}  // namespace

int run_translate(Options& options) {
  MaskArguments arguments;
  RowsOutput output;
  bool drawn = false;
  arguments.declare(options, true);
  options.flag("--explain", drawn, "draw the block with its kernels");
  output.declare(options);
  options.parse();

  const std::vector<plan::FusionMask> masks = arguments.at_least_one();
  if (drawn && output.to_stdout())
    throw base::UsageError("--explain draws for people: give --json or --csv a file");
  if (output.write(rows(masks))) return kDone;
  for (const plan::FusionMask mask : masks) print(drawn ? explain(mask) : plan::translate(mask) + "\n");
  return kDone;
}

}  // namespace fusetune::cli
