// Generated GPU kernels in the emulator, for tests: sources, libraries, checks.
#pragma once

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "block/data.h"
#include "measure/emulation.h"

namespace fusetune::gpu_test {

/// A device small enough that schedules are cut and shared memory is scarce.
lower::GpuTarget small_gpu();

/// A small block: the sizes that tests vary.
struct Case {
  block::Dtype dtype = block::Dtype::f32;
  std::int64_t seq = 33, heads = 2, head_size = 40, ffn = 72;
  std::string mask = "full";
  block::Gelu gelu = block::Gelu::erf;
  /// Factor on the weights of q and k, so squared on the logits. In 16 bits 2 is as far as one can go: there
  /// a last digit of q decides on a third of a percent of a weight.
  float logits = 1;
  backend::simt::ThreadOrder order = backend::simt::ThreadOrder::forward;
  std::int64_t batch = 2;

  block::Problem problem() const;
  block::BlockData data() const;
  std::string name() const;  // fit for a test's name
};

void PrintTo(const Case& where, std::ostream* out);

/// What compile() compiles with; empty: the system's default.
extern std::string kernel_compiler;

/// The kernels of variants under schedules, compiled for the emulator; those that do not compile fail the
/// running test.
std::vector<measure::EmulatedKernel> compile(const std::vector<codegen::GpuKernel>& sources,
                                             backend::simt::Mode mode = backend::simt::Mode::checked);

/// For samples that move on from day to day; printed, and FUSETUNE_TEST_DAY repeats one.
std::size_t day_of_sample();

/// Every variant under its default schedule.
std::vector<codegen::GpuKernel> default_kernels(const block::Problem& problem);
/// Every variant under one of its other schedules, another one for another `turn`.
std::vector<codegen::GpuKernel> other_kernels(const block::Problem& problem, int turn);
/// Every variant under all of its schedules.
std::vector<codegen::GpuKernel> all_kernels(const block::Problem& problem);

/// Every variant under one schedule of each kind (lower::one_of_each_kind()) but its default's.
std::vector<codegen::GpuKernel> kernels_of_other_kinds(const block::Problem& problem,
                                                       const lower::GpuTarget& target);
/// One of `kernels` for each kind of schedule among them, of another variant for another `turn`.
std::vector<codegen::GpuKernel> sample_of_kinds(const std::vector<codegen::GpuKernel>& kernels,
                                                std::size_t turn);
/// A kernel whose rows of scores no shared memory holds: they spill to workspace.
codegen::GpuKernel spilling_kernel(block::Problem problem, const lower::GpuTarget& target);

/// Checks each kernel against the oracle, in the emulator's checked mode.
void expect_right(const Case& where, const std::vector<measure::EmulatedKernel>& kernels);
/// Checks `count` random plans made of the first kernel of each variant.
void expect_plans_right(const Case& where, const std::vector<measure::EmulatedKernel>& kernels, int count);

}  // namespace fusetune::gpu_test
