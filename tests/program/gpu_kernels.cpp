#include "program/gpu_kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <map>
#include <random>
#include <regex>

#include "plan/fusion_plan.h"

namespace fusetune::gpu_test {

using backend::simt::Mode;
using codegen::GpuKernel;
using measure::EmulatedKernel;

lower::GpuTarget small_gpu() {
  lower::GpuTarget target;
  target.shared_bytes = 99 << 10;
  target.multiprocessors = 2;
  return target;
}

block::Problem Case::problem() const {
  block::Problem problem;
  problem.batch = batch;
  problem.seq = seq;
  problem.heads = heads;
  problem.head_size = head_size;
  problem.ffn = ffn;
  problem.layers = 1;
  problem.mask = block::MaskSpec::parse(mask);
  problem.dtype = dtype;
  problem.gelu = gelu;
  return problem;
}

block::BlockData Case::data() const {
  block::BlockData data = block::generate_data(problem());
  if (logits == 1) return data;
  const std::int64_t hidden = heads * head_size;
  std::vector<float>& w_qkv = data.weights[static_cast<int>(block::Weight::w_qkv)];
  for (std::int64_t row = 0; row < hidden; ++row)
    for (std::int64_t column = 0; column < 2 * hidden; ++column)
      w_qkv[static_cast<std::size_t>(row * 3 * hidden + column)] *= logits;  // a power of two: still rounded
  return data;
}

std::string Case::name() const {
  const std::string text = std::string(block::name(dtype)) + "_S" + std::to_string(seq) + "_H" +
                           std::to_string(heads) + "_W" + std::to_string(head_size) + "_" +
                           mask.substr(mask.rfind('/') + 1) + (logits > 1 ? "_large_logits" : "") +
                           (gelu == block::Gelu::tanh ? "_tanh" : "");
  return std::regex_replace(text, std::regex("[^A-Za-z0-9]+"), "_");
}

std::string kernel_compiler;

void PrintTo(const Case& where, std::ostream* out) { *out << where.name(); }

std::vector<EmulatedKernel> compile(const std::vector<GpuKernel>& sources, Mode mode) {
  std::vector<std::string> units;
  for (const GpuKernel& source : sources)
    units.push_back(codegen::translation_unit({&source, 1}, codegen::GpuDialect::simt));
  backend::simt::LibraryCompiler compiler(backend::cpu::find_compiler(kernel_compiler), mode, {});
  const auto results = compiler.compile(units);
  std::vector<EmulatedKernel> kernels;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (results[i].library != nullptr)
      kernels.push_back({sources[i], results[i].library});
    else
      ADD_FAILURE() << sources[i].symbol << " does not compile:\n" << results[i].log;
  }
  return kernels;
}

std::vector<GpuKernel> default_kernels(const block::Problem& problem) {
  std::vector<GpuKernel> kernels;
  for (const auto& variant : plan::all_variants())
    kernels.push_back(codegen::generate_gpu(variant, lower::default_schedule(variant, problem, small_gpu()),
                                            problem, small_gpu()));
  return kernels;
}

std::size_t day_of_sample() {
  const char* const fixed = std::getenv("FUSETUNE_TEST_DAY");
  const long day = fixed != nullptr ? std::atol(fixed)
                                    : std::chrono::duration_cast<std::chrono::hours>(
                                          std::chrono::system_clock::now().time_since_epoch())
                                              .count() /
                                          24;
  std::cout << "sample of day " << day << " (FUSETUNE_TEST_DAY=" << day << " repeats it)\n";
  return static_cast<std::size_t>(day);
}

std::vector<GpuKernel> other_kernels(const block::Problem& problem, int turn) {
  std::vector<GpuKernel> kernels;
  for (const auto& variant : plan::all_variants()) {
    const auto schedules = lower::program_space(variant, problem, small_gpu());
    if (schedules.size() < 2) continue;
    const std::size_t which = 1 + static_cast<std::size_t>(turn++) % (schedules.size() - 1);
    kernels.push_back(codegen::generate_gpu(variant, schedules[which], problem, small_gpu()));
  }
  return kernels;
}

std::vector<GpuKernel> all_kernels(const block::Problem& problem) {
  std::vector<GpuKernel> kernels;
  for (const auto& variant : plan::all_variants())
    for (const auto& schedule : lower::program_space(variant, problem, small_gpu()))
      kernels.push_back(codegen::generate_gpu(variant, schedule, problem, small_gpu()));
  return kernels;
}

std::vector<GpuKernel> kernels_of_other_kinds(const block::Problem& problem, const lower::GpuTarget& target) {
  std::vector<GpuKernel> kernels;
  for (const auto& variant : plan::all_variants()) {
    const auto schedules = lower::one_of_each_kind(variant, problem, target);
    for (std::size_t i = 1; i < schedules.size(); ++i)
      kernels.push_back(codegen::generate_gpu(variant, schedules[i], problem, target));
  }
  return kernels;
}

std::vector<GpuKernel> sample_of_kinds(const std::vector<GpuKernel>& kernels, std::size_t turn) {
  std::map<lower::GpuScheduleKind, std::vector<const GpuKernel*>> kinds;
  for (const GpuKernel& kernel : kernels) kinds[lower::kind_of(kernel.schedule)].push_back(&kernel);
  std::vector<GpuKernel> some;
  for (const auto& [kind, of_kind] : kinds) some.push_back(*of_kind[turn % of_kind.size()]);
  return some;
}

GpuKernel spilling_kernel(block::Problem problem, const lower::GpuTarget& target) {
  problem.seq = 4096;
  const plan::SegmentVariant attention{{2, 6}, false};
  const lower::GpuSchedule schedule = lower::default_schedule(attention, problem, target);
  GpuKernel kernel = codegen::generate_gpu(attention, schedule, problem, target);
  EXPECT_GT(kernel.block_scratch_floats, 0);
  return kernel;
}

void expect_right(const Case& where, const std::vector<EmulatedKernel>& kernels) {
  measure::EmulationOptions options;
  options.mode = Mode::checked;
  options.run.order = where.order;
  measure::Emulation emulation(where.problem(), where.data(), options);
  for (const EmulatedKernel& kernel : kernels) {
    const measure::CheckResult result = emulation.check_segment(kernel);
    EXPECT_EQ(result.outcome, measure::Outcome::ok)
        << kernel.source.variant.to_string() << " " << kernel.source.schedule.to_string() << "\n"
        << result.message;
  }
}

void expect_plans_right(const Case& where, const std::vector<EmulatedKernel>& kernels, int count) {
  measure::EmulationOptions options;
  options.mode = Mode::checked;
  measure::Emulation emulation(where.problem(), where.data(), options);
  std::mt19937 random(20);
  for (int i = 0; i < count; ++i) {
    const plan::FusionMask mask{static_cast<std::uint16_t>(random())};
    std::vector<EmulatedKernel> sequence;
    for (const auto& variant : plan::FusionPlan::from_mask(mask).variants()) {
      const auto found = std::find_if(kernels.begin(), kernels.end(), [&](const EmulatedKernel& kernel) {
        return kernel.source.variant == variant;
      });
      ASSERT_NE(found, kernels.end()) << variant.to_string();
      sequence.push_back(*found);
    }
    const measure::CheckResult result = emulation.check_plan(sequence);
    EXPECT_EQ(result.outcome, measure::Outcome::ok) << "mask " << mask.value << "\n" << result.message;
  }
}

}  // namespace fusetune::gpu_test
