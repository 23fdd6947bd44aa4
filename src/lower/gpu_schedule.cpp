#include "lower/gpu_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/error.h"
#include "base/integer.h"
#include "base/number.h"
#include "base/text.h"
#include "block/operators.h"
#include "block/rounding.h"
#include "lower/phases.h"
#include "lower/schedule_set.h"

namespace fusetune::lower {
namespace {

using base::ceil_div;
using base::round_up;

constexpr std::array<std::string_view, 4> kHandOffs{"barrier", "fused", "norm", "pipeline"};
constexpr std::array<std::string_view, 2> kSyncs{"grid", "rows"};
constexpr std::array<std::string_view, 2> kProducts{"generated", "library"};
constexpr plan::Segment kProductBiasGelu{10, 11};  // which the library has an epilogue for
constexpr std::int64_t kKeyTile = 64;              // keys of a tile in kernels/cuda/attention.h: the mask's

/// Elements that pad a row of a tile in shared memory: 16 bytes.
std::int64_t pad(block::Dtype dtype) { return 16 / block::element_size(dtype); }

bool multiplies_heads(const Phase& phase) {
  return phase.kind == PhaseKind::heads && (phase.contains(2) || phase.contains(5));
}
bool is_online(const Phase& phase, bool hand_written) {
  return hand_written && phase.kind == PhaseKind::heads && phase.contains(2) && phase.contains(5);
}

/// True where a segment is exactly one matrix product with a weight, or one with bias and GELU behind it.
bool is_library_call(const plan::Segment& segment) {
  const bool begins_with_product =
      block::operators()[static_cast<std::size_t>(segment.first)].kind == block::OperatorKind::gemm;
  return (segment.size() == 1 && begins_with_product) || segment == kProductBiasGelu;
}

template <class Names>
int parse_name(std::string_view key, std::string_view value, const Names& names) {
  const auto at = std::find(names.begin(), names.end(), value);
  if (at == names.end())
    throw base::UsageError(fmt::format("schedule {} '{}': expected {}", key, value, fmt::join(names, ", ")));
  return static_cast<int>(at - names.begin());
}

int parse_count(std::string_view key, std::string_view value) {
  const auto number = base::parse_int(value);
  if (!number || *number < 1 || *number > 1'000'000)
    throw base::UsageError(
        fmt::format("schedule field '{}': expected a whole number from 1 on, got '{}'", key, value));
  return static_cast<int>(*number);
}

void set_field(GpuSchedule& schedule, std::string_view key, std::string_view value) {
  if (key == "handoff") {
    schedule.hand_off = static_cast<GpuHandOff>(parse_name(key, value, kHandOffs));
  } else if (key == "sync") {
    schedule.sync = static_cast<GpuSync>(parse_name(key, value, kSyncs));
  } else if (key == "product") {
    schedule.product = static_cast<GpuProduct>(parse_name(key, value, kProducts));
  } else if (key == "tile") {
    const auto parts = base::split(value, 'x');
    if (parts.size() != 3)
      throw base::UsageError(fmt::format("schedule tile '{}': expected ROWSxCOLUMNSxDEPTH", value));
    schedule.tile_rows = parse_count(key, parts[0]);
    schedule.tile_columns = parse_count(key, parts[1]);
    schedule.tile_depth = parse_count(key, parts[2]);
  } else {
    constexpr std::array<std::pair<std::string_view, int GpuSchedule::*>, 6> counts{{
        {"warps", &GpuSchedule::warps},
        {"stages", &GpuSchedule::stages},
        {"split", &GpuSchedule::split_k},
        {"query", &GpuSchedule::query_rows},
        {"rows", &GpuSchedule::row_block},
        {"ffn", &GpuSchedule::ffn_chunk},
    }};
    const auto at =
        std::find_if(counts.begin(), counts.end(), [&](const auto& count) { return count.first == key; });
    if (at == counts.end())
      throw base::UsageError(
          fmt::format("schedule field '{}' is unknown: expected handoff, sync, warps, tile, stages, split, "
                      "query, rows, ffn or product",
                      key));
    schedule.*(at->second) = parse_count(key, value);
  }
}

}  // namespace

std::string_view name(GpuHandOff hand_off) { return kHandOffs[static_cast<std::size_t>(hand_off)]; }
std::string_view name(GpuSync sync) { return kSyncs[static_cast<std::size_t>(sync)]; }
std::string_view name(GpuProduct product) { return kProducts[static_cast<std::size_t>(product)]; }

std::string GpuSchedule::to_string() const {
  if (product == GpuProduct::library) return fmt::format("product={}", name(product));
  return fmt::format("handoff={} sync={} warps={} tile={}x{}x{} stages={} split={} query={} rows={} ffn={}",
                     name(hand_off), name(sync), warps, tile_rows, tile_columns, tile_depth, stages, split_k,
                     query_rows, row_block, ffn_chunk);
}

GpuSchedule GpuSchedule::parse(std::string_view text) {
  GpuSchedule schedule;
  for (const auto& field : base::split(text, ' ')) {
    if (field.empty()) continue;
    const auto equals = field.find('=');
    if (equals == std::string_view::npos)
      throw base::UsageError(fmt::format("schedule '{}': expected key=value fields, got '{}'", text, field));
    set_field(schedule, std::string_view(field).substr(0, equals),
              std::string_view(field).substr(equals + 1));
  }
  return schedule;
}

int gemm_warp_rows(int tile_rows, int tile_columns, int warps) {
  int best = 0, best_sides = 0;
  for (int rows = 1; rows <= warps; ++rows) {
    if (warps % rows != 0 || tile_rows % (16 * rows) != 0 || tile_columns % (16 * (warps / rows)) != 0)
      continue;
    // What a warp reads from shared memory per step is proportional to the sum of its tile's sides.
    const int sides = tile_rows / rows + tile_columns / (warps / rows);
    if (best == 0 || sides < best_sides) {
      best = rows;
      best_sides = sides;
    }
  }
  return best;
}

// ------------------------------------------------------------------------------------------ shared memory

std::int64_t gemm_memory(const GpuSchedule& s, block::Dtype dtype) {
  const std::int64_t stage = std::int64_t{s.tile_rows} * (s.tile_depth + pad(dtype)) +
                             std::int64_t{s.tile_depth} * (s.tile_columns + pad(dtype));
  return s.stages * stage * block::element_size(dtype);
}

GpuHeadMemory head_memory(const Phase& phase, bool hand_written, const GpuSchedule& s,
                          const block::Problem& problem, const GpuTarget& target) {
  GpuHeadMemory memory;
  if (!multiplies_heads(phase)) return memory;
  const std::int64_t across = std::max(1, s.warps / (s.query_rows / 16));
  const std::int64_t values = round_up(ceil_div(problem.head_size, across), 16) * across;
  const std::int64_t ld = std::max(round_up(problem.head_size, 16), values) + pad(problem.dtype);
  const bool online = is_online(phase, hand_written);
  memory.tiles = (s.query_rows + (online ? 4 : 2) * kKeyTile) * ld * block::element_size(problem.dtype);
  if (!online && phase.last > 2) memory.scores = s.query_rows * (round_up(problem.seq, kKeyTile) + 8) * 4;
  memory.scores_on_chip = memory.tiles + memory.scores <= target.shared_bytes;
  return memory;
}

bool is_row_pipeline(const Phase& phase) {
  return phase.kind == PhaseKind::rows && (phase.contains(7) || phase.contains(10) || phase.contains(12));
}

GpuRowMemory row_memory(const Phase& phase, const GpuSchedule& s, const block::Problem& problem) {
  GpuRowMemory memory;
  if (!is_row_pipeline(phase)) return memory;
  const std::int64_t rows = s.row_block, size = block::element_size(problem.dtype),
                     padding = pad(problem.dtype);
  const std::int64_t hidden = round_up(problem.hidden(), s.tile_columns);
  const std::int64_t chunk = std::min<std::int64_t>(s.ffn_chunk, problem.ffn);
  if (phase.first <= 10) memory.block = rows * (hidden + padding) * size;
  if ((phase.contains(7) && phase.last >= 9) || phase.contains(12)) memory.sums = rows * (hidden + 8) * 4;
  if (phase.contains(12)) memory.activations = rows * (round_up(chunk, s.tile_columns) + padding) * size;
  memory.stages = std::int64_t{s.stages} * s.tile_depth * (s.tile_columns + padding) * size;
  return memory;
}

std::int64_t shared_memory(const SegmentProgram& program, const GpuSchedule& schedule,
                           const block::Problem& problem, const GpuTarget& target) {
  std::int64_t most = 16;  // a word for hand-overs
  for (const Phase& phase : program.phases) {
    std::int64_t bytes = 0;
    if (phase.kind == PhaseKind::columns) bytes = gemm_memory(schedule, problem.dtype);
    if (phase.kind == PhaseKind::heads)
      bytes = head_memory(phase, program.variant.hand_written, schedule, problem, target).total();
    if (phase.kind == PhaseKind::rows) bytes = row_memory(phase, schedule, problem).total();
    most = std::max(most, bytes);
  }
  return most;
}

// ------------------------------------------------------------------------------------------ schedule space

namespace {

/// What a variant's phases make of a schedule's fields.
struct Uses {
  bool tiles = false, heads = false, rows = false, ffn = false, chain = false;
};
Uses uses_of(const plan::SegmentVariant& variant, GpuHandOff hand_off) {
  Uses uses;
  const std::vector<Phase> phases = phases_of(variant, hand_off);
  for (const Phase& phase : phases) {
    uses.tiles |= phase.kind == PhaseKind::columns;
    uses.heads |= multiplies_heads(phase);
    uses.rows |= is_row_pipeline(phase);
    uses.ffn |= is_row_pipeline(phase) && phase.contains(12);
  }
  uses.chain = phases.size() > 1 && hand_off != GpuHandOff::barrier;
  return uses;
}

/// Columns of the narrowest product in the segment; 0 without one.
std::int64_t narrowest(const plan::SegmentVariant& variant, const block::Problem& problem) {
  std::int64_t columns = 0;
  const auto take = [&](int op, std::int64_t n) {
    if (variant.segment.contains(op) && (columns == 0 || n < columns)) columns = n;
  };
  take(0, 3 * problem.hidden());
  take(7, problem.hidden());
  take(10, problem.ffn);
  take(12, problem.hidden());
  return columns;
}

/// The largest tile that still makes a task for every multiprocessor, else the smallest.
GpuTile busy_tile(std::int64_t rows, std::int64_t columns, const GpuTarget& target) {
  constexpr std::array<GpuTile, 4> tiles{
      {{128, 128, 32, 8, 3}, {128, 64, 32, 4, 3}, {64, 64, 32, 4, 3}, {32, 64, 32, 4, 3}}};
  for (const GpuTile& tile : tiles)
    if (ceil_div(rows, tile.rows) * ceil_div(columns, tile.columns) >= target.multiprocessors) return tile;
  return tiles.back();
}

void set_tile(GpuSchedule& s, const GpuTile& tile) {
  s.tile_rows = tile.rows;
  s.tile_columns = tile.columns;
  s.tile_depth = tile.depth;
  s.warps = tile.warps;
  s.stages = tile.stages;
}

}  // namespace

GpuSchedule canonical(const GpuSchedule& schedule, const plan::SegmentVariant& variant,
                      const block::Problem& problem) {
  GpuSchedule s = schedule;
  const GpuSchedule defaults;
  if (s.product == GpuProduct::library) {
    s = defaults;
    s.product = GpuProduct::library;
    return s;
  }
  s.hand_off = simplest_hand_off(variant, s.hand_off);
  const Uses uses = uses_of(variant, s.hand_off);
  if (!uses.chain) s.sync = GpuSync::grid;
  if (!uses.tiles) {
    s.tile_rows = defaults.tile_rows;
    s.split_k = 1;
  }
  if (!uses.tiles && !uses.rows) {
    s.tile_columns = defaults.tile_columns;
    s.tile_depth = defaults.tile_depth;
    s.stages = defaults.stages;
  }
  if (!uses.rows) s.row_block = defaults.row_block;
  if (!uses.ffn)
    s.ffn_chunk = defaults.ffn_chunk;
  else
    s.ffn_chunk = static_cast<int>(std::min<std::int64_t>(s.ffn_chunk, problem.ffn));
  if (!uses.heads)
    s.query_rows = defaults.query_rows;
  else if (variant.hand_written)
    s.query_rows = 16 * s.warps;
  return s;
}

GpuSchedule default_schedule(const plan::SegmentVariant& variant, const block::Problem& problem,
                             const GpuTarget& target) {
  std::vector<GpuTile> tiles;  // the first that fits
  if (const std::int64_t columns = narrowest(variant, problem); columns > 0) {
    if (target.tile) tiles.push_back(*target.tile);
    tiles.push_back(busy_tile(problem.tokens(), columns, target));
  } else {
    tiles.push_back({64, 64, 32, 4, 3});
  }
  for (const GpuTile& tile : tiles) {
    GpuSchedule s;
    set_tile(s, tile);
    s = canonical(s, variant, problem);
    if (refuse(s, variant, problem, target).empty()) return s;
  }
  GpuSchedule s;
  set_tile(s, {32, 64, 32, 4, 2});  // fits everywhere
  return canonical(s, variant, problem);
}

namespace {

using GpuScheduleSet = ScheduleSet<GpuSchedule, GpuTarget>;

void add_tiles(GpuScheduleSet& set) {
  constexpr std::array<GpuTile, 6> tiles{{{32, 64, 64, 4, 4},
                                          {64, 64, 64, 4, 3},
                                          {64, 128, 32, 4, 4},
                                          {128, 64, 32, 4, 4},
                                          {128, 128, 32, 8, 3},
                                          {16, 64, 64, 4, 4}}};
  for (const GpuTile& tile : tiles) set.add([&](GpuSchedule& s) { set_tile(s, tile); });
  for (const int parts : {2, 4}) set.add([&](GpuSchedule& s) { s.split_k = parts; });
}

/// How a row pipeline divides its rows and the inner FFN columns.
struct RowShape {
  int rows, ffn, warps;
  int stages = 0;  // 0: the tile's
};

/// Rows stay on chip; nothing where the segment has no such rows.
void add_row_pipeline(GpuScheduleSet& set, GpuHandOff hand_off, GpuSync sync, const RowShape& shape) {
  if (simplest_hand_off(set.variant(), hand_off) != hand_off) return;
  set.add([&](GpuSchedule& s) {
    s.hand_off = hand_off;
    s.sync = sync;
    s.tile_columns = 128;  // eight warps can divide them
    s.row_block = shape.rows;
    s.ffn_chunk = shape.ffn;
    s.warps = shape.warps;
    if (shape.stages > 0) s.stages = shape.stages;
  });
}

/// True where rows behind attention are all that a segment has: their shape matters most there. Behind
/// attention they are one phase of several.
bool is_rows_only(const plan::SegmentVariant& variant) { return variant.segment.first >= plan::kCoreLast; }

void add_row_pipelines(GpuScheduleSet& set) {
  constexpr std::array<RowShape, 3> shapes{{{16, 256, 4}, {32, 256, 4}, {32, 512, 8}}};
  const std::size_t count = is_rows_only(set.variant()) ? shapes.size() : 1;
  for (const GpuHandOff hand_off : {GpuHandOff::norm, GpuHandOff::pipeline}) {
    for (std::size_t i = 0; i < count; ++i) add_row_pipeline(set, hand_off, GpuSync::grid, shapes[i]);
    add_row_pipeline(set, hand_off, GpuSync::rows, shapes.front());
  }
}

void add_schedules_worth_timing(GpuScheduleSet& set) {
  const plan::SegmentVariant& variant = set.variant();
  add_row_pipelines(set);
  set.add([](GpuSchedule& s) { s.sync = GpuSync::rows; });
  const bool products = narrowest(variant, block::Problem{}) > 0;
  if (variant.segment.size() <= 2 && products) add_tiles(set);
  if (variant.segment.last <= plan::kCoreLast) {
    set.add([](GpuSchedule& s) { s.query_rows = 32; });
    set.add([](GpuSchedule& s) { s.query_rows = 16; });
    set.add([](GpuSchedule& s) { s.warps = 8; });
    set.add([](GpuSchedule& s) { s.warps = 2; });
  }
  if (set.target().library && is_library_call(variant.segment))
    set.add([](GpuSchedule& s) { s.product = GpuProduct::library; });
}

}  // namespace

std::vector<GpuSchedule> schedule_space(const plan::SegmentVariant& variant, const block::Problem& problem,
                                        const GpuTarget& target, std::vector<Refused<GpuSchedule>>* refused) {
  GpuScheduleSet set(variant, problem, target, refused);
  add_schedules_worth_timing(set);
  return set.take();
}

std::vector<GpuSchedule> program_space(const plan::SegmentVariant& variant, const block::Problem& problem,
                                       const GpuTarget& target, std::vector<Refused<GpuSchedule>>* refused) {
  GpuScheduleSet set(variant, problem, target, refused);
  add_schedules_worth_timing(set);
  set.add([](GpuSchedule& s) { s.hand_off = GpuHandOff::barrier; });
  if (is_rows_only(variant))
    for (const GpuHandOff hand_off : {GpuHandOff::norm, GpuHandOff::pipeline})
      add_row_pipeline(set, hand_off, GpuSync::rows, {16, 64, 4, 2});
  set.add([](GpuSchedule& s) {
    s.sync = GpuSync::rows;
    s.split_k = 3;
    s.tile_rows = 16;
  });
  return set.take();
}

GpuScheduleKind kind_of(const GpuSchedule& schedule) {
  return {schedule.hand_off, schedule.sync, schedule.split_k > 1};
}

std::vector<GpuSchedule> one_of_each_kind(const plan::SegmentVariant& variant, const block::Problem& problem,
                                          const GpuTarget& target) {
  std::set<GpuScheduleKind> kinds;
  std::vector<GpuSchedule> schedules;
  for (const GpuSchedule& schedule : program_space(variant, problem, target))
    if (kinds.insert(kind_of(schedule)).second) schedules.push_back(schedule);
  return schedules;
}

// ---------------------------------------------------------------------------------------------- refusals

namespace {

/// What the library's bias and GELU are not.
std::string refuse_epilogue(const block::Problem& problem) {
  if (problem.gelu != block::Gelu::tanh)
    return fmt::format("product=library: its GELU is the tanh form, this problem's is --gelu {}",
                       block::name(problem.gelu));
  if (problem.dtype != block::Dtype::f32)
    return fmt::format(
        "product=library: it takes a bias in the dtype of its results, {}; a block's are float32",
        block::name(problem.dtype));
  return {};
}

std::string refuse_library(const plan::SegmentVariant& variant, const block::Problem& problem,
                           const GpuTarget& target) {
  if (variant.segment == plan::Segment{0, 1})
    return "product=library writes one matrix: the results of [0-1] go to q, k and v by heads";
  if (!is_library_call(variant.segment))
    return "product=library computes [0], [7], [10] and [12], which are matrix products alone, and [10-11]";
  if (!target.library)
    return "product=library is for kernels that run here, on a GPU: what is generated or exported has none";
  if (variant.segment == kProductBiasGelu)
    if (std::string reason = refuse_epilogue(problem); !reason.empty()) return reason;
  return target.library->version.empty() ? "product=library: " + target.library->missing : std::string();
}

std::string refuse_tile(const GpuSchedule& s, const block::Problem& problem) {
  if (s.tile_depth % 16 != 0 || s.tile_depth > 128)
    return fmt::format("tile depth {} is not a multiple of 16 up to 128", s.tile_depth);
  if (s.stages < 2 || s.stages > 8) return fmt::format("{} pipeline stages are outside 2..8", s.stages);
  if (gemm_warp_rows(s.tile_rows, s.tile_columns, s.warps) == 0)
    return fmt::format("a {}x{} tile cannot be divided among {} warps in parts of 16x16", s.tile_rows,
                       s.tile_columns, s.warps);
  if (s.tile_rows * s.tile_columns / (32 * s.warps) > 128)
    return fmt::format(
        "a {}x{} tile leaves {} sums to each thread of {} warps: at most 128 fit its registers", s.tile_rows,
        s.tile_columns, s.tile_rows * s.tile_columns / (32 * s.warps), s.warps);
  const std::int64_t longest = std::max(problem.hidden(), problem.ffn);
  if (s.split_k > 1 && ceil_div(longest, s.tile_depth) < s.split_k)
    return fmt::format("k of at most {} has fewer than {} steps of {}", longest, s.split_k, s.tile_depth);
  return {};
}

std::string refuse_heads(const GpuSchedule& s, const plan::SegmentVariant& variant) {
  if (s.query_rows % 16 != 0 || (s.query_rows < 64 ? 64 % s.query_rows : s.query_rows % 64) != 0 ||
      s.query_rows > 128)
    return fmt::format("{} query rows: expected 16, 32, 64 or 128", s.query_rows);
  const int warp_rows = s.query_rows / 16;
  if (variant.hand_written && warp_rows != s.warps)
    return fmt::format("hand-written attention gives each of {} warps 16 query rows, not {} in all", s.warps,
                       s.query_rows);
  if (s.warps % warp_rows != 0 || s.warps / warp_rows > 4)
    return fmt::format("{} query rows make {} warp rows: {} warps are not 1, 2 or 4 times as many",
                       s.query_rows, warp_rows, s.warps);
  return {};
}

std::string refuse_rows(const GpuSchedule& s) {
  if (s.row_block % 16 != 0 || s.row_block > 64)
    return fmt::format("row block {} is not 16, 32, 48 or 64", s.row_block);
  if (s.tile_columns % (16 * s.warps) != 0 || s.tile_columns % s.tile_depth != 0)
    return fmt::format(
        "a row pipeline needs tile columns ({}) that are a multiple of 16 for each of {} warps "
        "and of the depth {}",
        s.tile_columns, s.warps, s.tile_depth);
  if (s.row_block * s.tile_columns / (32 * s.warps) > 128) return "too many sums for the registers";
  return {};
}

}  // namespace

std::string refuse(const GpuSchedule& s, const plan::SegmentVariant& variant, const block::Problem& problem,
                   const GpuTarget& target) {
  if (s.product == GpuProduct::library) return refuse_library(variant, problem, target);
  if (s.warps != 1 && s.warps != 2 && s.warps != 4 && s.warps != 8 && s.warps != 16)
    return fmt::format("{} warps: expected 1, 2, 4, 8 or 16", s.warps);
  const Uses uses = uses_of(variant, s.hand_off);
  if (s.sync == GpuSync::rows && !uses.chain)
    return "sync=rows needs several stages of which each takes rows from the one before";
  if (uses.tiles)
    if (std::string reason = refuse_tile(s, problem); !reason.empty()) return reason;
  if (uses.heads)
    if (std::string reason = refuse_heads(s, variant); !reason.empty()) return reason;
  if (uses.rows)
    if (std::string reason = refuse_rows(s); !reason.empty()) return reason;
  const SegmentProgram program = make_program(variant, phases_of(variant, s.hand_off));
  const std::int64_t bytes = shared_memory(program, s, problem, target);
  if (bytes > target.shared_bytes)
    return fmt::format("needs {} bytes of shared memory per block, the device has {}", bytes,
                       target.shared_bytes);
  return {};
}

}  // namespace fusetune::lower
