#include "cli/border_effects.h"

#include <gtest/gtest.h>

#include "lower/program.h"

namespace fusetune::cli {
namespace {

block::Problem problem() {
  block::Problem small;
  small.batch = 1;
  small.seq = 33;
  small.heads = 2;
  small.head_size = 20;
  small.ffn = 160;
  return small;
}

double bytes_of(const plan::FusionPlan& plan) {
  double bytes = 0;
  for (const plan::Segment& segment : plan.segments()) {
    const lower::StaticCosts costs = lower::static_costs(segment, problem());
    bytes += costs.bytes_read + costs.bytes_written;
  }
  return bytes;
}

TEST(BorderEffects, EachIsThePlanThatDiffersThere) {
  for (const int mask : {0, 10922, 20480, 32768, 48996, 65535}) {
    const auto plan = plan::FusionPlan::from_mask({static_cast<std::uint16_t>(mask)});
    const std::vector<BorderEffect> effects = border_effects(plan, problem(), {});
    ASSERT_EQ(effects.size(), 14U);
    for (const BorderEffect& effect : effects) {
      SCOPED_TRACE(plan.to_string() + " at " + std::to_string(effect.op));
      EXPECT_EQ(effect.changed.borders(), plan.borders() ^ (1 << effect.op));
      EXPECT_EQ(effect.kernels, effect.changed.kernel_count() - plan.kernel_count());
      EXPECT_DOUBLE_EQ(effect.bytes, bytes_of(effect.changed) - bytes_of(plan));
      EXPECT_EQ(effect.left.segment.last, effect.op);
      EXPECT_EQ(effect.right.segment.first, effect.op + 1);
      EXPECT_EQ(effect.fused.segment, (plan::Segment{effect.left.segment.first, effect.right.segment.last}));
      EXPECT_GE(effect.on_chip_bytes, 0);
      // Fusing never adds what has to cross memory.
      EXPECT_GE(effect.split ? -effect.bytes : effect.bytes, 0);
    }
  }
}

TEST(BorderEffects, SayWhoRunsAttentionAfterwards) {
  const auto hand_written = border_effects(plan::FusionPlan::byte_transformer(), problem(), {});
  for (const BorderEffect& effect : hand_written) {
    const bool inside = plan::kCoreFirst <= effect.op && effect.op < plan::kCoreLast;
    EXPECT_EQ(!effect.note.empty(), inside) << effect.op;
    EXPECT_EQ(effect.changed.hand_written(), !inside) << effect.op;
  }
  // [2-4] and [5-6]: fused they hold all of attention.
  const plan::FusionPlan halves(0b11111111010011, false);
  const BorderEffect joined = border_effects(halves, problem(), {}).at(4);
  EXPECT_FALSE(joined.changed.hand_written());
  EXPECT_EQ(joined.fused.to_string(), "[2-6]");
  const plan::FusionPlan by_hand(joined.changed.borders(), true);
  EXPECT_EQ(joined.note,
            "with hand-written attention: mask " + std::to_string(by_hand.canonical_mask().value));
}

}  // namespace
}  // namespace fusetune::cli
