// What each border of a plan saves and costs: the plan against the one that differs in this border only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "block/problem.h"
#include "lower/schedule.h"
#include "plan/fusion_plan.h"

namespace fusetune::cli {

struct BorderEffect {
  int op = 0;          // the border lies between this operator and the next
  bool split = false;  // in the plan; the change fuses there, else it splits
  plan::FusionPlan changed;
  plan::SegmentVariant fused;        // the kernel that holds both operators, in the plan or in `changed`
  plan::SegmentVariant left, right;  // its parts in the other of the two
  int kernels = 0;                   // what the change adds: 1 or -1
  double bytes = 0;                  // to and from memory at least that the change adds
  std::int64_t on_chip_bytes = 0;    // that `fused` keeps per thread under its default schedule
  std::string note;                  // of attention, where the change decides on who runs it
};

/// All 14, in order.
std::vector<BorderEffect> border_effects(const plan::FusionPlan& plan, const block::Problem& problem,
                                         const lower::CpuTarget& target);

}  // namespace fusetune::cli
