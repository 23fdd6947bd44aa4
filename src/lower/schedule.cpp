#include "lower/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/number.h"
#include "base/text.h"
#include "lower/phases.h"
#include "lower/schedule_set.h"

namespace fusetune::lower {
namespace {

struct IsaInfo {
  std::string_view name;
  int lanes;
  std::span<const std::pair<int, int>> tiles;
};

// Accumulators + one row of the panel + a broadcast must fit the registers: 16 (generic, AVX2), 32 (AVX-512).
constexpr std::array<std::pair<int, int>, 1> kGenericTiles{{{4, 8}}};
constexpr std::array<std::pair<int, int>, 2> kAvx2Tiles{{{6, 16}, {4, 24}}};
constexpr std::array<std::pair<int, int>, 3> kAvx512Tiles{{{8, 48}, {12, 32}, {6, 64}}};
constexpr std::array<IsaInfo, 3> kIsas{{
    {"generic", 4, kGenericTiles},
    {"avx2", 8, kAvx2Tiles},
    {"avx512", 16, kAvx512Tiles},
}};
const IsaInfo& info(Isa isa) { return kIsas[static_cast<std::size_t>(isa)]; }

constexpr std::array<std::string_view, 3> kHandOffs{"barrier", "fused", "pipeline"};

bool has(const plan::SegmentVariant& v, int op) { return v.segment.contains(op); }
bool has_gemm(const plan::SegmentVariant& v) { return has(v, 0) || has(v, 7) || has(v, 10) || has(v, 12); }
bool has_ffn_hand_over(const plan::SegmentVariant& v) { return has(v, 11) && has(v, 12); }
bool is_single(const plan::SegmentVariant& v) { return v.segment.size() == 1; }

int parse_field(std::string_view key, std::string_view value) {
  const auto number = base::parse_int(value);
  if (!number || *number < 0 || *number > 1'000'000)
    throw base::UsageError(fmt::format("schedule field '{}': expected a whole number, got '{}'", key, value));
  return static_cast<int>(*number);
}

void set_field(Schedule& schedule, std::string_view key, std::string_view value) {
  if (key == "handoff") {
    const auto at = std::find(kHandOffs.begin(), kHandOffs.end(), value);
    if (at == kHandOffs.end())
      throw base::UsageError(
          fmt::format("schedule hand-off '{}': expected {}", value, fmt::join(kHandOffs, ", ")));
    schedule.hand_off = static_cast<HandOff>(at - kHandOffs.begin());
  } else if (key == "tile") {
    const auto parts = base::split(value, 'x');
    if (parts.size() != 2)
      throw base::UsageError(fmt::format("schedule tile '{}': expected ROWSxCOLUMNS", value));
    schedule.tile_rows = parse_field(key, parts[0]);
    schedule.tile_columns = parse_field(key, parts[1]);
  } else if (key == "rows") {
    schedule.row_block = parse_field(key, value);
  } else if (key == "k") {
    schedule.k_chunk = parse_field(key, value);
  } else if (key == "ffn") {
    schedule.ffn_chunk = parse_field(key, value);
  } else if (key == "query") {
    schedule.query_rows = parse_field(key, value);
  } else if (key == "keys") {
    schedule.key_tiles = parse_field(key, value);
  } else if (key == "perhead") {
    schedule.qkv_per_head = parse_field(key, value) != 0;
  } else if (key == "bridge") {
    schedule.bridge = parse_field(key, value) != 0;
  } else {
    throw base::UsageError(
        fmt::format("schedule field '{}' is unknown: expected handoff, tile, rows, k, ffn, query, keys, "
                    "perhead or bridge",
                    key));
  }
}

/// Inner FFN columns whose activations take a quarter of L2, a multiple of `panel`: the row block itself, its
/// output block and a weight panel need the rest. Half of L2 was 2 to 3 % slower for [7-14] of bert-base,
/// batch 1, seq 128, on a Zen 3 core with 512 KiB.
int fitting_ffn_chunk(int row_block, const block::Problem& problem, const CpuTarget& target, int panel) {
  const std::int64_t fit = target.l2_bytes / 4 / (static_cast<std::int64_t>(row_block) * 4);
  const std::int64_t columns = std::max<std::int64_t>(fit, panel), whole = problem.ffn;
  if (columns >= whole) return 0;
  // Even chunks: 3072 columns of which 1000 fit become four of 768, not three of 1000 and a rest.
  const std::int64_t chunks = (whole + columns - 1) / columns;
  const std::int64_t even = (whole + chunks - 1) / chunks;
  return static_cast<int>((even + panel - 1) / panel * panel);
}

}  // namespace

std::string_view name(Isa isa) { return info(isa).name; }

Isa parse_isa(std::string_view text) {
  for (std::size_t i = 0; i < kIsas.size(); ++i)
    if (kIsas[i].name == text) return static_cast<Isa>(i);
  throw base::UsageError(fmt::format("instruction set '{}': expected generic, avx2 or avx512", text));
}

int vector_lanes(Isa isa) { return info(isa).lanes; }
std::span<const std::pair<int, int>> gemm_tiles(Isa isa) { return info(isa).tiles; }
std::string_view name(HandOff hand_off) { return kHandOffs[static_cast<std::size_t>(hand_off)]; }

std::string Schedule::to_string() const {
  return fmt::format("handoff={} tile={}x{} rows={} k={} ffn={} query={} keys={} perhead={:d} bridge={:d}",
                     name(hand_off), tile_rows, tile_columns, row_block, k_chunk, ffn_chunk, query_rows,
                     key_tiles, qkv_per_head, bridge);
}

Schedule Schedule::parse(std::string_view text) {
  Schedule schedule;
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

Schedule canonical(const Schedule& schedule, const plan::SegmentVariant& variant,
                   const block::Problem& problem) {
  Schedule s = schedule;
  const Schedule defaults;
  if (s.hand_off != HandOff::pipeline) s.qkv_per_head = s.bridge = false;
  if (!has(variant, 0) || variant.segment.last < 2) s.qkv_per_head = false;
  if (variant.segment.first > 5 || variant.segment.last < 7 || s.qkv_per_head) s.bridge = false;
  s.hand_off = simplest_hand_off(variant, s);
  const std::vector<Phase> phases = phases_of(variant, s);
  const auto uses = [&](auto... kinds) {
    return std::any_of(phases.begin(), phases.end(),
                       [&](const Phase& p) { return ((p.kind == kinds) || ...); });
  };
  if (!uses(PhaseKind::heads, PhaseKind::bridge)) s.query_rows = defaults.query_rows;
  if (!variant.hand_written) s.key_tiles = defaults.key_tiles;
  if (!has_gemm(variant)) s.k_chunk = defaults.k_chunk;
  if (!uses(PhaseKind::columns, PhaseKind::rows, PhaseKind::bridge) && !s.qkv_per_head)
    s.row_block = defaults.row_block;
  if (!has_ffn_hand_over(variant) || s.hand_off != HandOff::pipeline || s.ffn_chunk >= problem.ffn)
    s.ffn_chunk = 0;
  return s;
}

Schedule default_schedule(const plan::SegmentVariant& variant, const block::Problem& problem,
                          const CpuTarget& target) {
  Schedule s;
  const auto [rows, columns] = gemm_tiles(target.isa).front();
  s.tile_rows = target.tile_rows > 0 ? target.tile_rows : rows;
  s.tile_columns = target.tile_columns > 0 ? target.tile_columns : columns;
  s.hand_off = HandOff::pipeline;
  s.row_block = 64;
  s.k_chunk = target.k_chunk > 0 ? target.k_chunk : 768;
  s.ffn_chunk = fitting_ffn_chunk(s.row_block, problem, target, s.tile_columns);
  s.query_rows = 64;
  return canonical(s, variant, problem);
}

namespace {

using CpuScheduleSet = ScheduleSet<Schedule, CpuTarget>;

void add_row_block(CpuScheduleSet& set, int rows) {
  set.add([&](Schedule& s) {
    s.row_block = rows;
    s.ffn_chunk = fitting_ffn_chunk(rows, set.problem(), set.target(), s.tile_columns);
  });
}

void add_schedules_worth_timing(CpuScheduleSet& set) {
  const plan::SegmentVariant& variant = set.variant();
  set.add([](Schedule& s) { s.hand_off = HandOff::fused; });
  set.add([](Schedule& s) { s.qkv_per_head = true; });
  set.add([](Schedule& s) { s.bridge = true; });
  // The row block matters where rows stay on chip, and to a lone GEMM; elsewhere it is one stage of several.
  const bool rows_stay = variant.segment.first >= 6 && variant.segment.last >= 9;
  if (rows_stay || (is_single(variant) && has_gemm(variant))) {
    add_row_block(set, 32);
    add_row_block(set, 128);
  }
  if (variant.segment.last <= plan::kCoreLast) set.add([](Schedule& s) { s.query_rows = 32; });
  if (is_single(variant) && has_gemm(variant))
    for (const auto& [rows, columns] : gemm_tiles(set.target().isa))
      for (const int k_chunk : {384, 768, 4096})
        set.add([&, tile_rows = rows, tile_columns = columns](Schedule& s) {
          s.tile_rows = tile_rows;
          s.tile_columns = tile_columns;
          s.k_chunk = k_chunk;
        });
}

}  // namespace

std::vector<Schedule> schedule_space(const plan::SegmentVariant& variant, const block::Problem& problem,
                                     const CpuTarget& target, std::vector<Refused<Schedule>>* refused) {
  CpuScheduleSet set(variant, problem, target, refused);
  add_schedules_worth_timing(set);
  return set.take();
}

std::vector<Schedule> program_space(const plan::SegmentVariant& variant, const block::Problem& problem,
                                    const CpuTarget& target, std::vector<Refused<Schedule>>* refused) {
  CpuScheduleSet set(variant, problem, target, refused);
  add_schedules_worth_timing(set);
  set.add([](Schedule& s) { s.hand_off = HandOff::barrier; });
  set.add([](Schedule& s) { s.key_tiles = 1; });
  set.add([](Schedule& s) { s.query_rows = 16; });
  add_row_block(set, 20);
  return set.take();
}

std::string refuse(const Schedule& s, const plan::SegmentVariant& variant, const block::Problem& problem,
                   const CpuTarget& target) {
  if (problem.dtype != block::Dtype::f32)
    return fmt::format("dtype {} is not generated for the CPU by this version: use f32", name(problem.dtype));
  const auto tiles = gemm_tiles(target.isa);
  if (std::find(tiles.begin(), tiles.end(), std::pair{s.tile_rows, s.tile_columns}) == tiles.end())
    return fmt::format("tile {}x{} is not one of {}'s register tiles", s.tile_rows, s.tile_columns,
                       name(target.isa));
  if (s.row_block < 1 || s.row_block > 1024)
    return fmt::format("row block {} is outside 1..1024", s.row_block);
  if (s.k_chunk < 1) return fmt::format("K-chunk {} is not positive", s.k_chunk);
  if (s.query_rows < 1 || 64 % s.query_rows != 0)
    return fmt::format("{} query rows do not divide the mask's tile of 64", s.query_rows);
  if (s.key_tiles < 1 || s.key_tiles > 1024)
    return fmt::format("{} key tiles are outside 1..1024", s.key_tiles);
  if (s.ffn_chunk < 0 || s.ffn_chunk % s.tile_columns != 0)
    return fmt::format("FFN chunk {} is not a multiple of the panel width {}", s.ffn_chunk, s.tile_columns);
  if (s.qkv_per_head && s.bridge) return "qkv per head and the bridge exclude each other";
  if (canonical(s, variant, problem).qkv_per_head != s.qkv_per_head)
    return "qkv per head needs hand-off pipeline and operators 0 to 2 in the segment";
  if (canonical(s, variant, problem).bridge != s.bridge)
    return "the bridge needs hand-off pipeline and a segment from operator 5 or earlier to 7 or later";
  if (s.bridge && s.row_block % s.query_rows != 0)
    return fmt::format("the bridge needs a row block ({}) of whole query blocks ({})", s.row_block,
                       s.query_rows);
  return {};
}

}  // namespace fusetune::lower
