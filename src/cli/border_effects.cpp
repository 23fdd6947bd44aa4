#include "cli/border_effects.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "codegen/kernel_source.h"
#include "lower/program.h"

namespace fusetune::cli {
namespace {

plan::SegmentVariant variant_with(const plan::FusionPlan& plan, int op) {
  for (const plan::SegmentVariant& variant : plan.variants())
    if (variant.segment.contains(op)) return variant;
  throw base::InternalError(fmt::format("plan {} has no operator {}", plan.to_string(), op));
}

double bytes_of(const plan::SegmentVariant& variant, const block::Problem& problem) {
  const lower::StaticCosts costs = lower::static_costs(variant.segment, problem);
  return costs.bytes_read + costs.bytes_written;
}

std::int64_t on_chip_bytes(const plan::SegmentVariant& variant, const block::Problem& problem,
                           const lower::CpuTarget& target) {
  const lower::Schedule schedule = lower::default_schedule(variant, problem, target);
  return codegen::generate_cpu(variant, schedule, problem, target).scratch_bytes;
}

std::string note_on(const plan::FusionPlan& plan, const BorderEffect& effect) {
  if (plan.hand_written() && !effect.changed.hand_written())
    return "no kernel holds all of attention then: generated attention";
  const plan::FusionPlan by_hand(effect.changed.borders(), true);
  if (!plan.hand_written() && by_hand.hand_written() && effect.fused.segment.contains_core() && effect.split)
    return fmt::format("with hand-written attention: mask {}", by_hand.canonical_mask().value);
  return {};
}

}  // namespace

std::vector<BorderEffect> border_effects(const plan::FusionPlan& plan, const block::Problem& problem,
                                         const lower::CpuTarget& target) {
  std::vector<BorderEffect> effects;
  for (int op = 0; op + 1 < block::kOperatorCount; ++op) {
    const auto border = static_cast<std::uint16_t>(1U << op);
    const bool split = (plan.borders() & border) != 0;
    const plan::FusionPlan changed(plan.borders() ^ border, plan.hand_written());
    const plan::FusionPlan& whole = split ? changed : plan;
    const plan::FusionPlan& parted = split ? plan : changed;
    BorderEffect effect{.op = op,
                        .split = split,
                        .changed = changed,
                        .fused = variant_with(whole, op),
                        .left = variant_with(parted, op),
                        .right = variant_with(parted, op + 1),
                        .kernels = split ? -1 : 1,
                        .note = {}};
    const double saved =
        bytes_of(effect.left, problem) + bytes_of(effect.right, problem) - bytes_of(effect.fused, problem);
    effect.bytes = split ? -saved : saved;
    effect.on_chip_bytes = on_chip_bytes(effect.fused, problem, target);
    effect.note = note_on(plan, effect);
    effects.push_back(std::move(effect));
  }
  return effects;
}

}  // namespace fusetune::cli
