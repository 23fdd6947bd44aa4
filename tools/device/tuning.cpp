#include "tuning.h"

#include <fmt/format.h>

#include <set>

#include "base/error.h"
#include "search/space.h"
#include "search/tile_tuning.h"

namespace fusetune::device_check {
namespace {

using block::Problem;

Problem bert_base(std::int64_t batch, std::int64_t seq, const char* mask) {
  const block::Preset& sizes = block::find_preset("bert-base");
  Problem problem;
  problem.batch = batch;
  problem.seq = seq;
  problem.heads = sizes.heads;
  problem.head_size = sizes.head_size;
  problem.ffn = sizes.ffn;
  problem.layers = sizes.layers;
  problem.eps = sizes.eps;
  problem.mask = block::MaskSpec::parse(mask);
  problem.dtype = block::Dtype::f16;
  return problem;
}

/// A block that the emulator runs in a moment.
Problem small(const char* mask) {
  Problem problem = bert_base(1, 33, mask);
  problem.heads = 2;
  problem.head_size = 16;
  problem.ffn = 64;
  return problem;
}

/// eps and layers are the default preset's.
std::vector<std::string> options_of(const Problem& problem) {
  return {"--batch", std::to_string(problem.batch),   "--seq",       std::to_string(problem.seq),
          "--heads", std::to_string(problem.heads),   "--head-size", std::to_string(problem.head_size),
          "--ffn",   std::to_string(problem.ffn),     "--mask",      problem.mask.to_string(),
          "--dtype", std::string(name(problem.dtype))};
}

std::set<int> variants_of_reference_plans() {
  std::set<int> variants;
  for (const plan::FusionPlan& plan :
       {plan::FusionPlan::unfused(), plan::FusionPlan::all_fused(), plan::FusionPlan::byte_transformer()})
    for (const plan::SegmentVariant& variant : plan.variants()) variants.insert(plan::variant_index(variant));
  return variants;
}

/// Those that a lone product may be found best with, and none chosen yet.
std::vector<search::GemmTile> every_tile(const search::Space& space) {
  std::vector<search::GemmTile> tiles = {{}};
  for (const int op : search::gemm_operators())
    for (const lower::AnySchedule& schedule : space.schedules(search::lone_variant(op), {}))
      tiles.push_back(search::gemm_tile(schedule));
  return tiles;
}

/// A space names its default first.
void add_default(const std::vector<lower::AnySchedule>& space, std::set<lower::AnySchedule>& schedules) {
  if (!space.empty()) schedules.insert(space.front());
}

std::set<int> every_variant() {
  std::set<int> variants;
  for (int variant = 0; variant < plan::kVariantCount; ++variant) variants.insert(variant);
  return variants;
}

}  // namespace

std::vector<TunedProblem> tuned_problems(bool quick) {
  const Problem short_one = quick ? small("full") : bert_base(1, 128, "full");
  const Problem long_one = quick ? small("causal") : bert_base(8, 512, "full");
  const Problem sparse =
      quick ? small("bigbird:global=8,window=4,block=8,random=1") : bert_base(8, 1024, "bigbird");
  return {{"tune-1x128", short_one, options_of(short_one)},
          {"tune-8x512", long_one, options_of(long_one)},
          {"tune-bigbird", sparse, options_of(sparse)}};
}

TunedProblem tuned_problem(std::string_view stage, bool quick) {
  for (TunedProblem& one : tuned_problems(quick))
    if (one.stage == stage) return std::move(one);
  throw base::InternalError(fmt::format("stage {} tunes no problem", stage));
}

std::vector<codegen::GpuKernel> first_candidates(const Problem& problem, const lower::GpuTarget& target,
                                                 bool quick) {
  const search::Space space = search::segment_space(problem, target);
  const std::set<int> of_references = variants_of_reference_plans();
  const std::vector<search::GemmTile> tiles = quick ? std::vector<search::GemmTile>{{}} : every_tile(space);
  std::vector<codegen::GpuKernel> kernels;
  for (const int variant : quick ? of_references : every_variant()) {
    std::set<lower::AnySchedule> schedules;
    if (search::is_lone_gemm(variant) && !quick) {
      for (const lower::AnySchedule& schedule : space.schedules(variant, {})) schedules.insert(schedule);
    } else if (of_references.contains(variant)) {
      for (const search::GemmTile& tile : tiles) add_default(space.schedules(variant, tile), schedules);
    } else {
      add_default(space.schedules(variant, {}), schedules);
    }
    for (const lower::AnySchedule& schedule : schedules)
      kernels.push_back(codegen::generate_gpu(plan::all_variants()[static_cast<std::size_t>(variant)],
                                              *schedule.gpu(), problem, target));
  }
  return kernels;
}

}  // namespace fusetune::device_check
