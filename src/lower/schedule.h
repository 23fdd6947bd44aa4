// Schedule: how a segment variant runs, as opposed to what it computes.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "block/problem.h"
#include "lower/refused.h"
#include "plan/fusion_plan.h"

namespace fusetune::lower {

/// Instruction set a CPU kernel is generated for: vector width and register count follow from it.
enum class Isa : std::uint8_t { generic, avx2, avx512 };
std::string_view name(Isa isa);
/// Throws base::UsageError.
Isa parse_isa(std::string_view text);
/// float32 lanes of one vector: 4, 8, 16.
int vector_lanes(Isa isa);

/// How the stages of a segment hand data to each other.
enum class HandOff : std::uint8_t {
  barrier,   // every operator is a grid-strided stage of its own, barriers between (always works)
  fused,     // element-wise operators inside loads and stores; barriers between the rest, columns split
  pipeline,  // attention per head, row blocks kept on chip through all row-local operators
};
std::string_view name(HandOff hand_off);

struct Schedule {
  HandOff hand_off = HandOff::barrier;
  int tile_rows = 6;          // GEMM register tile: rows
  int tile_columns = 16;      // columns; also the panel width of packed weights
  int row_block = 64;         // rows of a row block
  int k_chunk = 768;          // K per pass over a weight panel
  int ffn_chunk = 0;          // inner FFN columns kept on chip at a time; 0: all
  int query_rows = 64;        // query rows per attention step; divides 64
  int key_tiles = 8;          // mask tiles of 64 keys per step of the online softmax
  bool qkv_per_head = false;  // operator 0 computed per head inside the attention loop: no barrier, no qkv
  bool bridge = false;  // attention inside the row-block loop: no barrier before out_gemm, K and V packed
                        // again for every row block

  /// "handoff=pipeline tile=6x16 rows=64 k=768 ffn=768 query=64 keys=8 perhead=0 bridge=0", fields that
  /// matter to no operator left out by canonical(); parse() reads it back, missing fields are defaults.
  std::string to_string() const;
  static Schedule parse(std::string_view text);
  auto operator<=>(const Schedule&) const = default;
};

/// What schedules may assume of the machine.
struct CpuTarget {
  Isa isa = Isa::generic;
  int threads = 1;
  std::int64_t l1_bytes = 32 << 10;
  std::int64_t l2_bytes = 512 << 10;
  /// GEMM register tile and K-chunk found best on the lone GEMM segments, reused by every other variant so
  /// that they are tuned once; 0: the instruction set's first.
  int tile_rows = 0, tile_columns = 0, k_chunk = 0;
};

/// Register tiles the building blocks support for an instruction set, best guess first: {rows, columns}.
std::span<const std::pair<int, int>> gemm_tiles(Isa isa);

/// `schedule` with every field that does not change `variant`'s program set to its default: two schedules
/// with equal canonical forms generate the same kernel.
Schedule canonical(const Schedule& schedule, const plan::SegmentVariant& variant,
                   const block::Problem& problem);

/// The schedule a variant gets when nothing was measured.
Schedule default_schedule(const plan::SegmentVariant& variant, const block::Problem& problem,
                          const CpuTarget& target);

/// The schedules worth timing for a variant: distinct programs only, default first, at most about eight. The
/// default lowering (hand-off `barrier`) of several operators is not among them: its traffic is a superset of
/// every other's. `refused`, if given, gets those that would be among them but cannot run.
std::vector<Schedule> schedule_space(const plan::SegmentVariant& variant, const block::Problem& problem,
                                     const CpuTarget& target,
                                     std::vector<Refused<Schedule>>* refused = nullptr);

/// schedule_space() and what only verification runs: the default lowering, the smallest attention steps, a
/// row block that no size divides.
std::vector<Schedule> program_space(const plan::SegmentVariant& variant, const block::Problem& problem,
                                    const CpuTarget& target,
                                    std::vector<Refused<Schedule>>* refused = nullptr);

/// Empty when the schedule can run; else the reason it is refused, for the log.
std::string refuse(const Schedule& schedule, const plan::SegmentVariant& variant,
                   const block::Problem& problem, const CpuTarget& target);

}  // namespace fusetune::lower
