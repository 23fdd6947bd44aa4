// SegmentProgram: a segment variant under a schedule, as phases of fused operators: the same for every
// target.
//
//   phase 1            barrier   phase 2                      barrier   phase 3
//   columns [0-1]         |      heads [2-6]                     |      rows [7-14]
//
// All threads meet between two phases. Inside a phase a task (a column range, a head, a row block) runs its
// operators one after the other and keeps what they hand over on chip; what crosses a phase or leaves the
// segment is in memory.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "lower/schedule.h"

namespace fusetune::lower {

/// Over what a phase's tasks range.
enum class PhaseKind : std::uint8_t {
  columns,  // a GEMM and the element-wise operator behind it: rows x weight columns, split among threads
  heads,    // operators of 0..6, one (batch entry, head) at a time
  rows,     // operators of 6..14, one row block at a time
  bridge,   // operators of 2..14: row blocks of one batch entry, all heads inside
};
std::string_view name(PhaseKind kind);

struct Phase {
  PhaseKind kind;
  int first, last;  // operators, inclusive
  bool contains(int op) const { return first <= op && op <= last; }
};

/// Where a tensor that an operator of the segment writes lives.
enum class Placement : std::uint8_t {
  on_chip,    // handed over inside a phase
  workspace,  // crosses a phase, nobody outside reads it
  live_out,   // read outside the segment, or the block's output
};

struct SegmentProgram {
  plan::SegmentVariant variant;
  std::vector<Phase> phases;
  std::vector<block::Tensor> live_in;

  /// Placement of a tensor written inside the segment.
  Placement placement(block::Tensor tensor) const;
  bool in_memory(block::Tensor tensor) const { return placement(tensor) != Placement::on_chip; }
  /// One line a phase, as in the drawing above.
  std::string to_string() const;
};

/// Throws base::UsageError with refuse()'s reason.
SegmentProgram lower_segment(const plan::SegmentVariant& variant, const Schedule& schedule,
                             const block::Problem& problem, const CpuTarget& target);

/// What a segment costs at least, from the operator tables: independent of the schedule.
struct StaticCosts {
  double flops = 0;          // multiply-adds count two
  double bytes_read = 0;     // live-in tensors, weights and parameters, once
  double bytes_written = 0;  // live-out tensors, once
};
StaticCosts static_costs(const plan::Segment& segment, const block::Problem& problem);

}  // namespace fusetune::lower
