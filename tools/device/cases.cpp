#include "cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <random>

#include "base/error.h"

namespace fusetune::device_check {
namespace {

using block::Dtype;
using block::MaskSpec;
using block::Problem;
using lower::GpuSchedule;
using plan::SegmentVariant;

constexpr std::size_t kAll = 1000;
constexpr unsigned kPlanSeed = 20;

std::vector<MaskSpec> masks_of(std::initializer_list<const char*> texts) {
  std::vector<MaskSpec> masks;
  for (const char* text : texts) masks.push_back(MaskSpec::parse(text));
  return masks;
}

bool attends(const SegmentVariant& variant) {
  return variant.segment.first <= plan::kCoreLast && variant.segment.last >= plan::kCoreFirst;
}

// ------------------------------------------------------------------------------------------------- families

/// No size is a multiple of a tile; heads and hidden sizes are no powers of two.
Problem odd_problem(Dtype dtype) {
  Problem problem;
  problem.batch = 2;
  problem.seq = 65;
  problem.heads = 3;
  problem.head_size = 40;
  problem.ffn = 200;
  problem.dtype = dtype;
  problem.data = block::DataMode::scaled;
  return problem;
}

/// For the same: nothing hidden, half of it, tiles without any pair, padded rows.
std::vector<MaskSpec> odd_masks() {
  return masks_of({"full", "causal", "bigbird:global=8,window=8,block=8,random=2", "padding:lengths=65/17"});
}

Problem model_problem(std::string_view preset, std::int64_t batch, std::int64_t seq, Dtype dtype) {
  const block::Preset& sizes = block::find_preset(preset);
  Problem problem;
  problem.batch = batch;
  problem.seq = seq;
  problem.heads = sizes.heads;
  problem.head_size = sizes.head_size;
  problem.ffn = sizes.ffn;
  problem.dtype = dtype;
  problem.data = block::DataMode::scaled;
  return problem;
}

/// `most`: schedules of a variant, the last kinds.
void add_families(std::vector<FamilyCase>& cases, std::span<const SegmentVariant> variants,
                  const Problem& problem, const std::vector<MaskSpec>& masks, const lower::GpuTarget& target,
                  std::size_t most = kAll) {
  for (const SegmentVariant& variant : variants) {
    const std::vector<GpuSchedule> kinds = lower::one_of_each_kind(variant, problem, target);
    for (std::size_t i = kinds.size() - std::min(most, kinds.size()); i < kinds.size(); ++i)
      cases.push_back({.kernel = codegen::generate_gpu(variant, kinds[i], problem, target),
                       .problem = problem,
                       .masks = attends(variant) ? masks : masks_of({"full"})});
  }
}

constexpr SegmentVariant kFamilies[] = {
    {{0, 0}},       {{0, 1}},   {{2, 2}},   {{3, 4}},   {{5, 5}},  {{2, 6}},   {{2, 6}, true},
    {{1, 6}, true}, {{6, 7}},   {{7, 8}},   {{9, 9}},   {{7, 9}},  {{10, 10}}, {{10, 11}},
    {{11, 12}},     {{12, 12}}, {{12, 14}}, {{10, 14}}, {{7, 14}}, {{0, 14}},  {{0, 14}, true},
};
constexpr SegmentVariant kModelFamilies[] = {{{7, 9}}, {{7, 14}}, {{2, 6}, true}, {{0, 14}, true}};
constexpr SegmentVariant kQuickFamilies[] = {{{0, 1}}, {{2, 6}}, {{2, 6}, true}, {{7, 9}}, {{0, 14}, true}};

// ---------------------------------------------------------------------------------------------------- timed

/// The schedules worth timing for both batch sizes: the batch is an argument of the kernel.
void add_timed(std::vector<TimedCase>& cases, const std::string& name, const SegmentVariant& variant,
               const Problem& problem, const lower::GpuTarget& target, std::size_t most) {
  const std::vector<GpuSchedule> space = lower::schedule_space(variant, problem, target);
  for (std::size_t i = 0; i < std::min(most, space.size()); ++i)
    cases.push_back({name, codegen::generate_gpu(variant, space[i], problem, target), problem});
}

void add_gemm(std::vector<TimedCase>& cases, int op, const Problem& problem, const lower::GpuTarget& target,
              std::size_t most) {
  const std::int64_t d = problem.hidden(), n = op == 0 ? 3 * d : op == 10 ? problem.ffn : d;
  const std::string suffix =
      problem.dtype == Dtype::f16 ? "" : fmt::format(" {}", block::name(problem.dtype));
  add_timed(cases, fmt::format("gemm {}x{}x{}{}", problem.tokens(), n, op == 12 ? problem.ffn : d, suffix),
            {{op, op}}, problem, target, most);
}

/// All products in f16, the most important format; one of each size of batch in the others.
std::vector<TimedCase> gemm_cases(const lower::GpuTarget& target, bool quick) {
  std::vector<TimedCase> cases;
  if (quick) {
    for (const Dtype dtype : {Dtype::f16, Dtype::bf16, Dtype::f32})
      add_gemm(cases, 7, model_problem("bert-base", 1, 32, dtype), target, 2);
    return cases;
  }
  for (const std::int64_t batch : {1, 8})
    for (const int op : {0, 7, 10, 12})
      add_gemm(cases, op, model_problem("bert-base", batch, 128, Dtype::f16), target, kAll);
  constexpr std::size_t kFew = 4;
  for (const Dtype dtype : {Dtype::bf16, Dtype::f32})
    for (const std::int64_t batch : {1, 8})
      add_gemm(cases, 10, model_problem("bert-base", batch, 128, dtype), target, kFew);
  return cases;
}

std::vector<TimedCase> attention_cases(const lower::GpuTarget& target, bool quick) {
  struct Shape {
    std::int64_t batch, seq;
    const char* mask;
  };
  constexpr std::size_t kSome = 6;
  const std::vector<Shape> shapes =
      quick ? std::vector<Shape>{{1, 64, "full"}}
            : std::vector<Shape>{{1, 128, "full"}, {8, 512, "full"}, {1, 1024, "causal"}};
  std::vector<TimedCase> cases;
  for (const Shape& shape : shapes)
    for (const bool hand_written : {true, false}) {
      Problem problem = model_problem("bert-base", shape.batch, shape.seq, Dtype::f16);
      problem.mask = MaskSpec::parse(shape.mask);
      const std::string name = fmt::format("attention {}x{} {}", shape.batch, shape.seq, shape.mask);
      add_timed(cases, name, {{plan::kCoreFirst, plan::kCoreLast}, hand_written}, problem, target,
                quick ? 1 : kSome);
    }
  return cases;
}

std::vector<TimedCase> segment_cases(const lower::GpuTarget& target, bool quick) {
  constexpr std::size_t kFew = 4;
  std::vector<TimedCase> cases;
  if (quick) return cases;
  for (const std::int64_t batch : {1, 8})
    for (const SegmentVariant& variant : std::initializer_list<SegmentVariant>{{{0, 1}},
                                                                               {{7, 8}},
                                                                               {{9, 9}},
                                                                               {{7, 9}},
                                                                               {{10, 11}},
                                                                               {{12, 13}},
                                                                               {{12, 14}},
                                                                               {{7, 14}},
                                                                               {{0, 14}, true}}) {
      const Problem problem = model_problem("bert-base", batch, 128, Dtype::f16);
      add_timed(cases, fmt::format("{} {}x{}", variant.to_string(), batch, problem.seq), variant, problem,
                target, kFew);
    }
  return cases;
}

}  // namespace

std::vector<FamilyCase> family_cases(Dtype dtype, const lower::GpuTarget& target, bool quick) {
  std::vector<FamilyCase> cases;
  if (quick) {
    const std::span<const SegmentVariant> families = kQuickFamilies;
    add_families(cases, dtype == Dtype::f16 ? families : families.last(2), odd_problem(dtype),
                 masks_of({"causal"}), target, 2);
    return cases;
  }
  add_families(cases, kFamilies, odd_problem(dtype), odd_masks(), target);
  add_families(cases, kModelFamilies, model_problem("minilm-l6", 1, 128, dtype), masks_of({"full"}), target);
  return cases;
}

std::vector<PlanCase> plan_cases(const lower::GpuTarget& target, bool quick) {
  constexpr Dtype kDtypes[] = {Dtype::f16, Dtype::bf16, Dtype::f32};
  const int count = quick ? 3 : 30;
  const std::vector<MaskSpec> masks = odd_masks();
  std::mt19937 random(kPlanSeed);  // whose numbers are the same with every library, unlike a distribution's
  std::vector<PlanCase> cases;
  for (int i = 0; i < count; ++i) {
    const plan::FusionMask mask{static_cast<std::uint16_t>(random())};
    PlanCase one{
        .plan = plan::FusionPlan::from_mask(mask), .problem = odd_problem(kDtypes[i % 3]), .kernels = {}};
    one.problem.mask = masks[static_cast<std::size_t>(i / 3) % masks.size()];
    for (const SegmentVariant& variant : one.plan.variants()) {
      const std::vector<GpuSchedule> kinds = lower::one_of_each_kind(variant, one.problem, target);
      one.kernels.push_back(
          codegen::generate_gpu(variant, kinds[random() % kinds.size()], one.problem, target));
    }
    cases.push_back(std::move(one));
  }
  return cases;
}

std::vector<TimedCase> timed_cases(std::string_view group, const lower::GpuTarget& target, bool quick) {
  if (group == "gemm") return gemm_cases(target, quick);
  if (group == "attention") return attention_cases(target, quick);
  if (group == "segments") return segment_cases(target, quick);
  throw base::InternalError(fmt::format("there is no group {} of timed kernels", group));
}

std::vector<codegen::GpuKernel> all_kernels(const lower::GpuTarget& target, bool quick,
                                            std::span<const std::string> stages) {
  const auto wanted = [&](std::string_view stage) {
    return stages.empty() || std::find(stages.begin(), stages.end(), stage) != stages.end();
  };
  std::vector<codegen::GpuKernel> kernels;
  for (const Dtype dtype : {Dtype::f16, Dtype::bf16, Dtype::f32})
    if (wanted(name(dtype)))
      for (FamilyCase& one : family_cases(dtype, target, quick)) kernels.push_back(std::move(one.kernel));
  if (wanted("plans"))
    for (PlanCase& one : plan_cases(target, quick))
      std::move(one.kernels.begin(), one.kernels.end(), std::back_inserter(kernels));
  for (const std::string_view group : kTimedGroups)
    if (wanted(group))
      for (TimedCase& one : timed_cases(group, target, quick)) kernels.push_back(std::move(one.kernel));
  return kernels;
}

}  // namespace fusetune::device_check
