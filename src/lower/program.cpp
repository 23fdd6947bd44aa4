#include "lower/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "block/operators.h"
#include "lower/gpu_schedule.h"
#include "lower/phases.h"

namespace fusetune::lower {
namespace {

constexpr std::array<std::string_view, 4> kPhaseNames{"columns", "heads", "rows", "bridge"};

bool is_gemm(int op) { return op == 0 || op == 7 || op == 10 || op == 12; }

/// The phase one operator makes when it runs alone.
PhaseKind lone_kind(int op) {
  if (is_gemm(op)) return PhaseKind::columns;
  return op <= 5 ? PhaseKind::heads : PhaseKind::rows;
}

/// Operators of [first, last] one by one; hand-written attention is one phase whatever the hand-off.
std::vector<Phase> barrier_phases(const plan::SegmentVariant& variant) {
  std::vector<Phase> phases;
  for (int op = variant.segment.first; op <= variant.segment.last; ++op) {
    if (variant.hand_written && op == plan::kCoreFirst) {
      phases.push_back({PhaseKind::heads, plan::kCoreFirst, plan::kCoreLast});
      op = plan::kCoreLast;
    } else {
      phases.push_back({lone_kind(op), op, op});
    }
  }
  return phases;
}

/// Operators [first, last] of 7..14 with element-wise work in the GEMMs' stores and before LayerNorm.
void append_fused_rows(std::vector<Phase>& phases, int first, int last) {
  for (int op = first; op <= last; ++op) {
    const bool pair = (is_gemm(op) || op == 8 || op == 13) && op < last;
    phases.push_back({is_gemm(op) ? PhaseKind::columns : PhaseKind::rows, op, pair ? op + 1 : op});
    if (pair) ++op;
  }
}

/// Operators [first, last] of 0..6 as a GEMM split by columns and one loop over heads.
void append_heads(std::vector<Phase>& phases, int first, int last, bool qkv_per_head) {
  if (first == 0 && !qkv_per_head) {
    phases.push_back({PhaseKind::columns, 0, std::min(last, 1)});
    first = 2;
  }
  if (first == 6)
    phases.push_back({PhaseKind::rows, 6, 6});
  else if (first <= last)
    phases.push_back({PhaseKind::heads, first, last});
}

std::vector<Phase> fused_phases(const plan::Segment& segment) {
  std::vector<Phase> phases;
  if (segment.first <= 6) append_heads(phases, segment.first, std::min(segment.last, 6), false);
  if (segment.last >= 7) append_fused_rows(phases, std::max(segment.first, 7), segment.last);
  return phases;
}

std::vector<Phase> pipeline_phases(const plan::Segment& segment, const Schedule& schedule) {
  std::vector<Phase> phases;
  if (schedule.bridge) {
    int first = segment.first;
    if (first == 0) {
      phases.push_back({PhaseKind::columns, 0, 1});
      first = 2;
    }
    phases.push_back({PhaseKind::bridge, first, segment.last});
    return phases;
  }
  const bool merge_on_load = segment.first == 6 && segment.last > 6;
  if (segment.first <= 6 && !merge_on_load)
    append_heads(phases, segment.first, std::min(segment.last, 6), schedule.qkv_per_head);
  if (segment.last >= 7)
    phases.push_back({PhaseKind::rows, merge_on_load ? 6 : std::max(segment.first, 7), segment.last});
  return phases;
}

bool same(const std::vector<Phase>& a, const std::vector<Phase>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Phase& x, const Phase& y) {
    return x.kind == y.kind && x.first == y.first && x.last == y.last;
  });
}

/// A row phase of one lone GEMM would split rows only: columns balance better and read each weight once.
std::vector<Phase> lone_gemms_by_columns(std::vector<Phase> phases) {
  for (Phase& phase : phases)
    if (phase.kind == PhaseKind::rows && is_gemm(phase.first) && phase.last <= phase.first + 1 &&
        (phase.last == phase.first || phase.last == 8 || phase.last == 11 || phase.last == 13))
      phase.kind = PhaseKind::columns;
  return phases;
}

/// GPU, operators [first, last] of 6..14: products with element-wise work in their loads (6, and 11 where it
/// comes first) and stores; with `norm` also the LayerNorm behind them, where it is in the segment.
void append_gpu_rows(std::vector<Phase>& phases, int first, int last, bool norm) {
  for (int op = first; op <= last;) {
    const bool loads = (op == 6 || op == 11) && op < last;
    const int product = loads ? op + 1 : op;
    int end = product;
    if (is_gemm(product) || op == 8 || op == 13) end = std::min(product + 1, last);
    const bool through_norm = norm && (product == 7 || product == 12) && last >= product + 2;
    if (through_norm) end = product + 2;
    phases.push_back({is_gemm(product) && !through_norm ? PhaseKind::columns : PhaseKind::rows, op, end});
    op = end + 1;
  }
}

std::vector<Phase> gpu_fused_phases(const plan::Segment& segment, bool norm) {
  std::vector<Phase> phases;
  const bool merge_on_load = segment.first == 6 && segment.last > 6;
  if (segment.first <= 6 && !merge_on_load)
    append_heads(phases, segment.first, std::min(segment.last, 6), false);
  if (segment.last >= 7)
    append_gpu_rows(phases, merge_on_load ? 6 : std::max(segment.first, 7), segment.last, norm);
  return phases;
}

/// A row pipeline of one product and nothing but element-wise work around it is better off as tiles.
std::vector<Phase> gpu_pipeline_phases(const plan::Segment& segment) {
  std::vector<Phase> phases = pipeline_phases(segment, Schedule{});
  Phase& rows = phases.back();
  if (rows.kind != PhaseKind::rows) return phases;
  std::vector<Phase> tiles;
  append_gpu_rows(tiles, rows.first, rows.last, false);
  if (tiles.size() == 1) rows = tiles.front();
  return phases;
}

}  // namespace

std::vector<Phase> phases_of(const plan::SegmentVariant& variant, GpuHandOff hand_off) {
  switch (hand_off) {
    case GpuHandOff::barrier:
      return barrier_phases(variant);
    case GpuHandOff::fused:
      return gpu_fused_phases(variant.segment, false);
    case GpuHandOff::norm:
      return gpu_fused_phases(variant.segment, true);
    case GpuHandOff::pipeline:
      return gpu_pipeline_phases(variant.segment);
  }
  throw base::InternalError("hand-off out of range");
}

GpuHandOff simplest_hand_off(const plan::SegmentVariant& variant, GpuHandOff hand_off) {
  const std::vector<Phase> phases = phases_of(variant, hand_off);
  for (const GpuHandOff simpler : {GpuHandOff::barrier, GpuHandOff::fused, GpuHandOff::norm}) {
    if (hand_off <= simpler) break;
    if (same(phases, phases_of(variant, simpler))) return simpler;
  }
  return hand_off;
}

std::vector<Phase> phases_of(const plan::SegmentVariant& variant, const Schedule& schedule) {
  switch (schedule.hand_off) {
    case HandOff::barrier:
      return barrier_phases(variant);
    case HandOff::fused:
      return fused_phases(variant.segment);
    case HandOff::pipeline:
      return lone_gemms_by_columns(pipeline_phases(variant.segment, schedule));
  }
  throw base::InternalError("hand-off out of range");
}

HandOff simplest_hand_off(const plan::SegmentVariant& variant, const Schedule& schedule) {
  const std::vector<Phase> phases = phases_of(variant, schedule);
  for (const HandOff simpler : {HandOff::barrier, HandOff::fused}) {
    if (schedule.hand_off <= simpler) break;
    Schedule other = schedule;
    other.hand_off = simpler;
    if (same(phases, phases_of(variant, other))) return simpler;
  }
  return schedule.hand_off;
}

SegmentProgram make_program(const plan::SegmentVariant& variant, std::vector<Phase> phases) {
  SegmentProgram program{variant, std::move(phases), {}};
  for (int t = 0; t < block::kTensorCount; ++t) {
    const auto tensor = static_cast<block::Tensor>(t);
    if (block::is_live_in(tensor, variant.segment.first, variant.segment.last))
      program.live_in.push_back(tensor);
  }
  return program;
}

std::string_view name(PhaseKind kind) { return kPhaseNames[static_cast<std::size_t>(kind)]; }

Placement SegmentProgram::placement(block::Tensor tensor) const {
  const auto [first, last] = variant.segment;
  if (block::is_live_out(tensor, first, last)) return Placement::live_out;
  const int writer = block::producer(tensor);
  const auto phase =
      std::find_if(phases.begin(), phases.end(), [&](const Phase& p) { return p.contains(writer); });
  if (phase == phases.end())
    throw base::InternalError("placement of a tensor that the segment does not write");
  return block::is_live_out(tensor, phase->first, phase->last) ? Placement::workspace : Placement::on_chip;
}

std::string SegmentProgram::to_string() const {
  std::string text;
  for (std::size_t i = 0; i < phases.size(); ++i) {
    if (i) text += " | ";
    text += fmt::format("{} [", name(phases[i].kind));
    for (int op = phases[i].first; op <= phases[i].last; ++op)
      text +=
          fmt::format("{}{}", op > phases[i].first ? " " : "", block::name(static_cast<block::Operator>(op)));
    text += "]";
  }
  return text;
}

SegmentProgram lower_segment(const plan::SegmentVariant& variant, const Schedule& schedule,
                             const block::Problem& problem, const CpuTarget& target) {
  if (const std::string reason = refuse(schedule, variant, problem, target); !reason.empty())
    throw base::UsageError(
        fmt::format("segment {} with schedule '{}': {}", variant.to_string(), schedule.to_string(), reason));
  return make_program(variant, phases_of(variant, schedule));
}

SegmentProgram lower_segment(const plan::SegmentVariant& variant, const GpuSchedule& schedule,
                             const block::Problem& problem, const GpuTarget& target) {
  if (const std::string reason = refuse(schedule, variant, problem, target); !reason.empty())
    throw base::UsageError(
        fmt::format("segment {} with schedule '{}': {}", variant.to_string(), schedule.to_string(), reason));
  if (schedule.product == GpuProduct::library)
    throw base::InternalError("a library's matrix product has no program to lower to");
  return make_program(variant, phases_of(variant, schedule.hand_off));
}

namespace {

double operator_flops(int op, const block::Problem& p) {
  const double m = static_cast<double>(p.tokens()), d = static_cast<double>(p.hidden());
  const double f = static_cast<double>(p.ffn), s = static_cast<double>(p.seq),
               h = static_cast<double>(p.heads);
  switch (op) {
    case 0:
      return 2 * m * d * 3 * d;
    case 1:
      return m * 3 * d;
    case 2:
      return 2 * m * s * d;
    case 3:
      return m * s * h;
    case 4:
      return 4 * m * s * h;  // maximum, exponential, sum, division: one each
    case 5:
      return 2 * m * s * d;
    case 6:
      return 0;
    case 7:
      return 2 * m * d * d;
    case 10:
    case 12:
      return 2 * m * d * f;
    case 11:
      return 2 * m * f;  // addition and GELU, one each
    case 8:
    case 13:
      return 2 * m * d;
    default:
      return 7 * m * d;  // LayerNorm: shift, two sums, square, scale, gamma, beta
  }
}

}  // namespace

StaticCosts static_costs(const plan::Segment& segment, const block::Problem& problem) {
  StaticCosts costs;
  for (int t = 0; t < block::kTensorCount; ++t) {
    const auto tensor = static_cast<block::Tensor>(t);
    const double bytes = 4.0 * static_cast<double>(problem.elements(tensor));
    if (block::is_live_in(tensor, segment.first, segment.last)) costs.bytes_read += bytes;
    if (block::is_live_out(tensor, segment.first, segment.last)) costs.bytes_written += bytes;
  }
  for (int op = segment.first; op <= segment.last; ++op) {
    const auto& row = block::info(static_cast<block::Operator>(op));
    costs.flops += operator_flops(op, problem);
    for (const block::Weight weight : row.weights) {
      const auto [k, n] = problem.shape(weight);
      costs.bytes_read += 4.0 * static_cast<double>(k * n);
    }
    for (const block::Parameter parameter : row.parameters)
      costs.bytes_read += 4.0 * static_cast<double>(problem.elements(parameter));
  }
  return costs;
}

}  // namespace fusetune::lower
