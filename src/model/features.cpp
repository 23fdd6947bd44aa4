#include "model/features.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "base/hash.h"
#include "lower/program.h"

namespace fusetune::model {
namespace {

/// Bytes count this many FLOPs in FeatureTable::work(): what a core computes while it loads one, roughly.
constexpr double kFlopsPerByte = 8;

struct PlanView {
  const plan::FusionPlan& plan;
  plan::FusionMask mask;
  std::vector<plan::Segment> segments;
  const ProblemFacts* facts;  // null in schema plan_bits
  ProblemFacts::Costs sum;    // over the plan's kernels
};

struct SegmentView {
  const plan::SegmentVariant& variant;
  const lower::Schedule* cpu;     // null on a GPU
  const lower::GpuSchedule* gpu;  // null on a CPU
  const ProblemFacts* facts;
  const Device& device;
  ProblemFacts::Costs costs;
  double phases;
  double shared_bytes;  // dynamic shared memory of a block; 0 on a CPU
};

template <typename View>
struct Feature {
  FeatureInfo info;
  std::function<double(const View&)> value;
};
template <typename View>
using Features = std::vector<Feature<View>>;

double number(auto value) { return static_cast<double>(value); }

template <typename View>
void add_problem(Features<View>& table) {
  const auto add = [&table](const char* name, const char* definition, double (*value)(const ProblemFacts&)) {
    table.push_back({{name, definition}, [value](const View& view) { return value(*view.facts); }});
  };
  using Facts = ProblemFacts;
  add("batch", "batch size B", [](const Facts& f) { return number(f.problem().batch); });
  add("seq", "sequence length S", [](const Facts& f) { return number(f.problem().seq); });
  add("heads", "attention heads H", [](const Facts& f) { return number(f.problem().heads); });
  add("head_size", "columns of a head W", [](const Facts& f) { return number(f.problem().head_size); });
  add("hidden", "hidden size D = H x W", [](const Facts& f) { return number(f.problem().hidden()); });
  add("ffn", "inner size of the FFN F", [](const Facts& f) { return number(f.problem().ffn); });
  add("tokens", "rows of the block B x S", [](const Facts& f) { return number(f.problem().tokens()); });
  add("layers", "layers of the model around the block",
      [](const Facts& f) { return number(f.problem().layers); });
  add("mask_density", "share of the (query, key) pairs that are visible",
      [](const Facts& f) { return f.mask_density(); });
}

void add_bits(Features<PlanView>& table) {
  for (int position = 0; position < 16; ++position)
    table.push_back({{fmt::format("bit{}", position),
                      fmt::format("bit {} of the canonical mask, the most significant first", position)},
                     [position](const PlanView& v) { return number(v.mask.bit(position)); }});
  for (int op = 0; op + 1 < block::kOperatorCount; ++op)
    table.push_back(
        {{fmt::format("border{}", op), fmt::format("1: operators {} and {} are apart", op, op + 1)},
         [op](const PlanView& v) { return number((v.plan.borders() >> op) & 1); }});
}

int longest(const PlanView& view) {
  int size = 0;
  for (const plan::Segment& segment : view.segments) size = std::max(size, segment.size());
  return size;
}

int fused_operators(const PlanView& view) {
  int count = 0;
  for (const plan::Segment& segment : view.segments) count += segment.size() > 1 ? segment.size() : 0;
  return count;
}

Features<PlanView> plan_bits_features() {
  Features<PlanView> table;
  add_bits(table);
  table.push_back(
      {{"kernels", "kernels of the plan"}, [](const PlanView& v) { return number(v.segments.size()); }});
  table.push_back({{"hand_written", "1: the hand-written attention runs"},
                   [](const PlanView& v) { return number(v.plan.hand_written()); }});
  table.push_back({{"longest_kernel", "operators of the longest kernel"},
                   [](const PlanView& v) { return number(longest(v)); }});
  table.push_back({{"fused_operators", "operators that share a kernel with another"},
                   [](const PlanView& v) { return number(fused_operators(v)); }});
  return table;
}

Features<PlanView> plan_features() {
  Features<PlanView> table = plan_bits_features();
  table.push_back(
      {{"flops", "floating-point operations of all kernels"}, [](const PlanView& v) { return v.sum.flops; }});
  table.push_back({{"bytes_read", "bytes that all kernels read at least"},
                   [](const PlanView& v) { return v.sum.bytes_read; }});
  table.push_back({{"bytes_written", "bytes that all kernels write at least"},
                   [](const PlanView& v) { return v.sum.bytes_written; }});
  table.push_back({{"barriers", "barriers inside all kernels under their default schedules"},
                   [](const PlanView& v) { return v.sum.barriers; }});
  add_problem(table);
  return table;
}

/// A field that both kinds of schedules have.
void add_shared(Features<SegmentView>& table, const char* name, const char* definition,
                int lower::Schedule::*cpu, int lower::GpuSchedule::*gpu) {
  table.push_back({{name, definition},
                   [cpu, gpu](const SegmentView& v) { return number(v.cpu ? v.cpu->*cpu : v.gpu->*gpu); }});
}

/// Fields of a CPU's schedule; 0 on a GPU.
void add_cpu_schedule(Features<SegmentView>& table) {
  const auto add = [&table](const char* name, const char* definition,
                            double (*value)(const lower::Schedule&)) {
    table.push_back(
        {{name, definition}, [value](const SegmentView& v) { return v.cpu ? value(*v.cpu) : 0; }});
  };
  using S = lower::Schedule;
  add("k_chunk", "K per pass over a weight panel; 0 on a GPU", [](const S& s) { return number(s.k_chunk); });
  add("key_tiles", "tiles of 64 keys of a softmax step; 0 on a GPU",
      [](const S& s) { return number(s.key_tiles); });
  add("qkv_per_head", "1: operator 0 inside the attention loop",
      [](const S& s) { return number(s.qkv_per_head); });
  add("bridge", "1: attention inside the row-block loop", [](const S& s) { return number(s.bridge); });
}

/// Fields of a GPU's schedule; 0 on a CPU.
void add_gpu_schedule(Features<SegmentView>& table) {
  const auto add = [&table](const char* name, const char* definition,
                            double (*value)(const lower::GpuSchedule&)) {
    table.push_back(
        {{name, definition}, [value](const SegmentView& v) { return v.gpu ? value(*v.gpu) : 0; }});
  };
  using S = lower::GpuSchedule;
  add("sync_rows", "1: a GPU's tasks wait for the rows they read, not for all blocks",
      [](const S& s) { return number(s.sync == lower::GpuSync::rows); });
  add("warps", "warps of a block; 0 on a CPU", [](const S& s) { return number(s.warps); });
  add("tile_depth", "K per step of a GPU's GEMM tile; 0 on a CPU",
      [](const S& s) { return number(s.tile_depth); });
  add("stages", "steps of a GPU's GEMM in flight; 0 on a CPU", [](const S& s) { return number(s.stages); });
  add("split_k", "parts of K in a GPU's GEMM; 0 on a CPU", [](const S& s) { return number(s.split_k); });
  add("library", "1: the vendor's library computes it",
      [](const S& s) { return number(s.product == lower::GpuProduct::library); });
}

double hand_off(const SegmentView& view) {
  return view.cpu ? number(static_cast<int>(view.cpu->hand_off)) : rank(view.gpu->hand_off);
}

void add_schedule(Features<SegmentView>& table) {
  using C = lower::Schedule;
  using G = lower::GpuSchedule;
  table.push_back({{"hand_off", "0 barrier, 1 fused, 1.5 norm, 2 pipeline"}, hand_off});
  add_shared(table, "tile_rows", "rows of the GEMM tile", &C::tile_rows, &G::tile_rows);
  add_shared(table, "tile_columns", "columns of the GEMM tile", &C::tile_columns, &G::tile_columns);
  add_shared(table, "row_block", "rows of a row block", &C::row_block, &G::row_block);
  add_shared(table, "ffn_chunk", "inner FFN columns on chip at a time; 0: all", &C::ffn_chunk, &G::ffn_chunk);
  add_shared(table, "query_rows", "query rows of an attention step", &C::query_rows, &G::query_rows);
  add_cpu_schedule(table);
  add_gpu_schedule(table);
}

void add_device(Features<SegmentView>& table) {
  const auto add = [&table](const char* name, const char* definition, double (*cpu)(const lower::CpuTarget&),
                            double (*gpu)(const lower::GpuTarget&)) {
    table.push_back({{name, definition}, [cpu, gpu](const SegmentView& v) {
                       if (const auto* target = std::get_if<lower::CpuTarget>(&v.device.target))
                         return cpu(*target);
                       return gpu(std::get<lower::GpuTarget>(v.device.target));
                     }});
  };
  using Cpu = lower::CpuTarget;
  using Gpu = lower::GpuTarget;
  add(
      "gpu", "1: the device is a GPU", [](const Cpu&) { return 0.0; }, [](const Gpu&) { return 1.0; });
  add(
      "threads", "threads of a CPU; multiprocessors of a GPU", [](const Cpu& t) { return number(t.threads); },
      [](const Gpu& t) { return number(t.multiprocessors); });
  add(
      "vector_lanes", "float32 lanes of a vector: 4, 8, 16; of a GPU's warp 32",
      [](const Cpu& t) { return number(lower::vector_lanes(t.isa)); }, [](const Gpu&) { return 32.0; });
  table.push_back({{"last_level_bytes", "bytes of the last-level cache; 0: not known"},
                   [](const SegmentView& v) { return number(v.device.last_level_bytes); }});
}

Features<SegmentView> segment_features() {
  Features<SegmentView> table;
  for (int op = 0; op < block::kOperatorCount; ++op)
    table.push_back({{fmt::format("has_{}", block::name(static_cast<block::Operator>(op))),
                      fmt::format("1: the segment runs operator {}", op)},
                     [op](const SegmentView& v) { return number(v.variant.segment.contains(op)); }});
  table.push_back({{"hand_written", "1: the hand-written attention runs"},
                   [](const SegmentView& v) { return number(v.variant.hand_written); }});
  add_schedule(table);
  table.push_back({{"phases", "phases of the kernel, a barrier between each two"},
                   [](const SegmentView& v) { return v.phases; }});
  table.push_back(
      {{"flops", "floating-point operations"}, [](const SegmentView& v) { return v.costs.flops; }});
  table.push_back(
      {{"bytes_read", "bytes read at least"}, [](const SegmentView& v) { return v.costs.bytes_read; }});
  table.push_back({{"bytes_written", "bytes written at least"},
                   [](const SegmentView& v) { return v.costs.bytes_written; }});
  table.push_back({{"shared_bytes", "shared memory of a GPU's block, bytes; 0 on a CPU"},
                   [](const SegmentView& v) { return v.shared_bytes; }});
  add_device(table);
  add_problem(table);
  return table;
}

const Features<PlanView>& plan_table(Schema schema) {
  static const Features<PlanView> bits = plan_bits_features();
  static const Features<PlanView> whole = plan_features();
  return schema == Schema::plan_bits ? bits : whole;
}

const Features<SegmentView>& segment_table() {
  static const Features<SegmentView> table = segment_features();
  return table;
}

template <typename View>
std::vector<FeatureInfo> infos(const Features<View>& table) {
  std::vector<FeatureInfo> result;
  for (const Feature<View>& feature : table) result.push_back(feature.info);
  return result;
}

template <typename View>
void append(const Features<View>& table, const View& view, std::vector<float>& values) {
  for (const Feature<View>& feature : table) values.push_back(static_cast<float>(feature.value(view)));
}

double work_of(const ProblemFacts::Costs& costs) {
  return model::work_of(costs.flops, costs.bytes_read + costs.bytes_written);
}

double density(const block::Problem& problem) {
  const block::Mask mask(problem.mask, problem.batch, problem.seq);
  double visible = 0;
  for (std::int64_t entry = 0; entry < mask.entries(); ++entry) visible += number(mask.visible_count(entry));
  return visible / (number(mask.entries()) * number(problem.seq) * number(problem.seq));
}

}  // namespace

double work_of(double flops, double bytes) { return flops + kFlopsPerByte * bytes; }

double rank(lower::GpuHandOff hand_off) {
  switch (hand_off) {
    case lower::GpuHandOff::barrier:
      return 0;
    case lower::GpuHandOff::fused:
      return 1;
    case lower::GpuHandOff::norm:
      return 1.5;
    case lower::GpuHandOff::pipeline:
      return 2;
  }
  throw base::InternalError("hand-off out of range");
}

std::string_view name(Schema schema) {
  switch (schema) {
    case Schema::plan_bits:
      return "plan_bits";
    case Schema::plan:
      return "plan";
    case Schema::segment:
      return "segment";
  }
  throw base::InternalError("feature schema out of range");
}

Schema parse_schema(std::string_view text) {
  for (const Schema schema : {Schema::plan_bits, Schema::plan, Schema::segment})
    if (text == name(schema)) return schema;
  throw base::UsageError(
      fmt::format("unknown feature schema '{}': expected plan_bits, plan or segment", text));
}

std::span<const FeatureInfo> features(Schema schema) {
  static const std::array<std::vector<FeatureInfo>, 3> all = {
      infos(plan_table(Schema::plan_bits)), infos(plan_table(Schema::plan)), infos(segment_table())};
  return all.at(static_cast<std::size_t>(schema));
}

std::string schema_hash(Schema schema) {
  base::Hasher hasher;
  hasher.add(name(schema));
  for (const FeatureInfo& feature : features(schema)) hasher.add(feature.name);
  return hasher.hex();
}

ProblemFacts::ProblemFacts(const block::Problem& problem)
    : problem_(problem), mask_density_(density(problem)) {
  // Barriers are counted as on a CPU of no particular kind, whatever the dtype: a feature, not a promise.
  block::Problem lowered = problem;
  lowered.dtype = block::Dtype::f32;
  const lower::CpuTarget target;
  for (const plan::SegmentVariant& variant : plan::all_variants()) {
    const lower::StaticCosts minimum = lower::static_costs(variant.segment, problem);
    const lower::Schedule schedule = lower::default_schedule(variant, lowered, target);
    const auto phases = lower::lower_segment(variant, schedule, lowered, target).phases.size();
    costs_[static_cast<std::size_t>(plan::variant_index(variant))] = {
        minimum.flops, minimum.bytes_read, minimum.bytes_written, number(phases) - 1};
  }
}

const ProblemFacts::Costs& ProblemFacts::costs(const plan::SegmentVariant& variant) const {
  return costs_[static_cast<std::size_t>(plan::variant_index(variant))];
}

FeatureTable::FeatureTable(Schema schema) : schema_(schema), columns_(features(schema).size()) {}

void FeatureTable::require(Schema schema) const {
  if (schema != schema_)
    throw base::InternalError(
        fmt::format("a row of schema {} does not fit a table of schema {}", name(schema), name(schema_)));
}

void FeatureTable::add(const plan::FusionPlan& plan) {
  require(Schema::plan_bits);
  append(plan_table(schema_), PlanView{plan, plan.canonical_mask(), plan.segments(), nullptr, {}}, values_);
  work_.push_back(1);
}

void FeatureTable::add(const plan::FusionPlan& plan, const ProblemFacts& facts) {
  require(Schema::plan);
  PlanView view{plan, plan.canonical_mask(), plan.segments(), &facts, {}};
  for (const plan::SegmentVariant& variant : plan.variants()) {
    const ProblemFacts::Costs& costs = facts.costs(variant);
    view.sum.flops += costs.flops;
    view.sum.bytes_read += costs.bytes_read;
    view.sum.bytes_written += costs.bytes_written;
    view.sum.barriers += costs.barriers;
  }
  append(plan_table(schema_), view, values_);
  // The problem's, not the plan's: what a plan moves on top is for the model to weigh.
  work_.push_back(work_of(facts.costs({{0, block::kOperatorCount - 1}, false})));
}

void FeatureTable::add(const plan::SegmentVariant& variant, const lower::AnySchedule& schedule,
                       const ProblemFacts& facts, const Device& device) {
  require(Schema::segment);
  SegmentView view{variant, schedule.cpu(), schedule.gpu(), &facts, device, facts.costs(variant), 0, 0};
  const auto* const cpu = std::get_if<lower::CpuTarget>(&device.target);
  if ((cpu != nullptr) != (view.cpu != nullptr))
    throw base::InternalError("features of a schedule that is of another kind of device");
  if (cpu != nullptr) {
    view.phases = number(lower::lower_segment(variant, *view.cpu, facts.problem(), *cpu).phases.size());
  } else if (view.gpu->product == lower::GpuProduct::library) {
    view.phases = 1;  // what the library does inside, nobody knows
  } else {
    const auto& gpu = std::get<lower::GpuTarget>(device.target);
    const auto program = lower::lower_segment(variant, *view.gpu, facts.problem(), gpu);
    view.phases = number(program.phases.size());
    view.shared_bytes = number(lower::shared_memory(program, *view.gpu, facts.problem(), gpu));
  }
  append(segment_table(), view, values_);
  work_.push_back(work_of(view.costs));
}

void FeatureTable::add_row_of(const FeatureTable& other, std::size_t row) {
  require(other.schema_);
  const auto values = other.row(row);
  values_.insert(values_.end(), values.begin(), values.end());
  work_.push_back(other.work_[row]);
}

std::span<const float> FeatureTable::row(std::size_t row) const {
  return std::span(values_).subspan(row * columns_, columns_);
}

}  // namespace fusetune::model
