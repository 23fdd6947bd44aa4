// GpuSchedule: how a segment variant runs on a GPU, as opposed to what it computes.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "block/problem.h"
#include "lower/program.h"
#include "lower/refused.h"
#include "plan/fusion_plan.h"

namespace fusetune::lower {

/// How the stages of a segment hand data to each other.
enum class GpuHandOff : std::uint8_t {
  barrier,   // every operator is a stage of its own (always works)
  fused,     // element-wise operators inside loads and stores
  norm,      // and each product's rows stay on chip through the LayerNorm behind it: [7-9], [12-14]
  pipeline,  // rows stay on chip through all operators behind attention
};
std::string_view name(GpuHandOff hand_off);

/// What a stage's tasks wait for.
enum class GpuSync : std::uint8_t {
  grid,  // all blocks meet between two stages
  rows,  // a task waits for the rows it reads, by counters
};
std::string_view name(GpuSync sync);

/// Who computes a segment's matrix product.
enum class GpuProduct : std::uint8_t {
  generated,  // a kernel of ours
  library,    // the vendor's library, where one call of it is the segment: [0], [7], [10], [12], [10-11]
};
std::string_view name(GpuProduct product);

struct GpuSchedule {
  GpuHandOff hand_off = GpuHandOff::fused;
  GpuSync sync = GpuSync::grid;
  int warps = 4;                               // of a block
  int tile_rows = 64;                          // of C, in GEMM stages
  int tile_columns = 64;                       // of C; in row pipelines, weight columns at a time
  int tile_depth = 32;                         // of k, per step
  int stages = 3;                              // steps in flight
  int split_k = 1;                             // parts of k in GEMM stages that nothing but a store follows
  int query_rows = 64;                         // query rows of an attention task
  int row_block = 16;                          // rows of a row pipeline
  int ffn_chunk = 256;                         // inner FFN columns kept on chip at a time
  GpuProduct product = GpuProduct::generated;  // library: all other fields mean nothing

  /// "handoff=fused sync=grid warps=4 tile=64x64x32 stages=3 split=1 query=64 rows=16 ffn=256", or
  /// "product=library"; parse() reads it back, missing fields are defaults.
  std::string to_string() const;
  /// Throws base::UsageError.
  static GpuSchedule parse(std::string_view text);
  auto operator<=>(const GpuSchedule&) const = default;
};

/// How a GEMM stage divides its product.
struct GpuTile {
  int rows = 0, columns = 0, depth = 0, warps = 0, stages = 0;  // as in GpuSchedule
};

/// A library of matrix products as it was found where kernels are to run.
struct GpuLibrary {
  std::string version;  // "cuBLASLt 13.0.2"; empty: it cannot be used,
  std::string missing;  // for this reason
};

/// What schedules may assume of the device.
struct GpuTarget {
  std::int64_t shared_bytes = 99 << 10;  // dynamic shared memory a block may opt in to
  int multiprocessors = 108;             // for choices that depend on how many tasks keep the device busy
  /// Found best on the lone GEMM segments, reused by every other variant that it fits so that it is tuned
  /// once; none: by size.
  std::optional<GpuTile> tile = std::nullopt;
  /// That product=library means; none: kernels are for elsewhere, so that no schedule can ask for it.
  std::optional<GpuLibrary> library = std::nullopt;
};

/// Warps of a block along the rows of a GEMM tile; the others lie along its columns. As square as possible;
/// 0 where the tile cannot be divided among the warps.
int gemm_warp_rows(int tile_rows, int tile_columns, int warps);

/// Shared memory of one phase. Offsets count from the block's shared memory; parts that a phase lacks take
/// nothing. The kernels' sizes follow the building blocks under kernels/cuda, a test compares them.
struct GpuHeadMemory {
  std::int64_t tiles = 0;      // queries, and two tiles of keys or values (four for hand-written attention)
  std::int64_t scores = 0;     // the block of whole score rows; 0: none
  bool scores_on_chip = true;  // else they spill to `scores` bytes of workspace per block
  std::int64_t total() const { return tiles + (scores_on_chip ? scores : 0); }
};
struct GpuRowMemory {
  std::int64_t block = 0;        // first operand: merged, then norm1
  std::int64_t sums = 0;         // float32 sums of a product
  std::int64_t activations = 0;  // inner FFN columns
  std::int64_t stages = 0;       // weight tiles in flight
  std::int64_t total() const { return block + sums + activations + stages; }
};
std::int64_t gemm_memory(const GpuSchedule& schedule, block::Dtype dtype);
GpuHeadMemory head_memory(const Phase& phase, bool hand_written, const GpuSchedule& schedule,
                          const block::Problem& problem, const GpuTarget& target);
GpuRowMemory row_memory(const Phase& phase, const GpuSchedule& schedule, const block::Problem& problem);

/// True where a `rows` phase keeps rows on chip between operators; else each row is handled by one warp.
bool is_row_pipeline(const Phase& phase);
/// Dynamic shared memory that a program needs per block.
std::int64_t shared_memory(const SegmentProgram& program, const GpuSchedule& schedule,
                           const block::Problem& problem, const GpuTarget& target);

/// `schedule` with every field that does not change `variant`'s program set to its default.
GpuSchedule canonical(const GpuSchedule& schedule, const plan::SegmentVariant& variant,
                      const block::Problem& problem);
/// The schedule a variant gets when nothing was measured.
GpuSchedule default_schedule(const plan::SegmentVariant& variant, const block::Problem& problem,
                             const GpuTarget& target);
/// The schedules worth timing for a variant: distinct programs only, default first. `refused`, if given, gets
/// those that would be among them but cannot run.
std::vector<GpuSchedule> schedule_space(const plan::SegmentVariant& variant, const block::Problem& problem,
                                        const GpuTarget& target,
                                        std::vector<Refused<GpuSchedule>>* refused = nullptr);
/// schedule_space() and what only verification runs: the default lowering, the smallest tiles.
std::vector<GpuSchedule> program_space(const plan::SegmentVariant& variant, const block::Problem& problem,
                                       const GpuTarget& target,
                                       std::vector<Refused<GpuSchedule>>* refused = nullptr);
/// What decides on the building blocks that a schedule's kernel is made of.
struct GpuScheduleKind {
  GpuHandOff hand_off;
  GpuSync sync;
  bool splits_k;
  auto operator<=>(const GpuScheduleKind&) const = default;
};
GpuScheduleKind kind_of(const GpuSchedule& schedule);
/// The first of program_space() of each kind: the default, then the others.
std::vector<GpuSchedule> one_of_each_kind(const plan::SegmentVariant& variant, const block::Problem& problem,
                                          const GpuTarget& target);
/// Empty when the schedule can run; else the reason it is refused, for the log.
std::string refuse(const GpuSchedule& schedule, const plan::SegmentVariant& variant,
                   const block::Problem& problem, const GpuTarget& target);

/// Throws base::UsageError with refuse()'s reason, and base::InternalError for product=library, which has no
/// program.
SegmentProgram lower_segment(const plan::SegmentVariant& variant, const GpuSchedule& schedule,
                             const block::Problem& problem, const GpuTarget& target);

}  // namespace fusetune::lower
