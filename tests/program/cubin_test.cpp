// Every segment variant in every dtype through NVRTC, without a GPU: the default schedules for one
// architecture wholly, of the other kinds of schedules and the other architectures a sample that moves on
// from day to day. Built a second time with FUSETUNE_EVERY_ARCHITECTURE for tools/test --full.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/cuda/cubin_compiler.h"
#include "backend/cuda/cubin_image.h"
#include "base/error.h"
#include "program/gpu_kernels.h"

namespace fusetune::gpu_test {
namespace {

using backend::cuda::Architecture;
using backend::cuda::CubinResult;
using block::Dtype;

/// Small, so that compiling takes little; the kernels' structure is the same for all sizes.
Case small_case(Dtype dtype) {
  Case small;
  small.dtype = dtype;
  small.seq = 64;
  small.head_size = 32;
  small.ffn = 128;
  return small;
}

constexpr Dtype kDtypes[] = {Dtype::f32, Dtype::f16, Dtype::bf16};

lower::GpuTarget target_of(const Architecture& architecture) {
  lower::GpuTarget target;
  target.shared_bytes = backend::cuda::limits(architecture).shared_bytes_per_block;
  return target;
}

std::vector<codegen::GpuKernel> kernels_for(Dtype dtype, const Architecture& architecture) {
  const block::Problem problem = small_case(dtype).problem();
  const lower::GpuTarget target = target_of(architecture);
  std::vector<codegen::GpuKernel> kernels;
  for (const auto& variant : plan::all_variants())
    kernels.push_back(
        codegen::generate_gpu(variant, lower::default_schedule(variant, problem, target), problem, target));
  return kernels;
}

class Cubins : public testing::Test {
 protected:
  void SetUp() override {
    try {
      nvrtc_.emplace();
    } catch (const base::EnvironmentError& error) {
      GTEST_SKIP() << error.what();
    }
  }

  std::vector<Architecture> architectures() const {
    return backend::cuda::supported_architectures(nvrtc_->architectures());
  }

  void expect_compiled(const std::vector<codegen::GpuKernel>& kernels, const Architecture& architecture) {
    std::vector<backend::cuda::CubinSource> sources;
    for (const auto& kernel : kernels)
      sources.push_back({kernel.symbol, kernel.symbol,
                         codegen::translation_unit({&kernel, 1}, codegen::GpuDialect::cuda), architecture});
    backend::cuda::CubinCompiler compiler(*nvrtc_, {});
    const auto results = compiler.compile(sources);
    const auto limits = backend::cuda::limits(architecture);
    for (std::size_t i = 0; i < results.size(); ++i) {
      ASSERT_EQ(results[i].status, CubinResult::Status::ok) << architecture.name() << "\n" << results[i].log;
      const auto id = backend::cuda::kernel_id(results[i].cubin);
      ASSERT_TRUE(id.has_value()) << kernels[i].symbol;
      EXPECT_EQ(*id, std::stoull(kernels[i].hash, nullptr, 16)) << kernels[i].symbol;
      EXPECT_LE(results[i].resources.registers * kernels[i].launch(1).threads, limits.registers_per_block);
    }
  }

  std::optional<backend::cuda::Nvrtc> nvrtc_;
};

#ifdef FUSETUNE_EVERY_ARCHITECTURE

/// The other kinds of schedules than the default's, and a kernel that spills.
std::vector<codegen::GpuKernel> other_kinds_for(Dtype dtype, const Architecture& architecture) {
  const block::Problem problem = small_case(dtype).problem();
  auto kernels = kernels_of_other_kinds(problem, target_of(architecture));
  kernels.push_back(spilling_kernel(problem, target_of(architecture)));
  return kernels;
}

TEST_F(Cubins, EveryVariantForEveryArchitecture) {
  for (const Architecture& architecture : architectures())
    for (const Dtype dtype : kDtypes)
      if (architecture != Architecture{90, true} || dtype == Dtype::bf16)
        expect_compiled(kernels_for(dtype, architecture), architecture);
}

TEST_F(Cubins, EveryKindOfScheduleOfEveryVariant) {
  for (const Dtype dtype : kDtypes) expect_compiled(other_kinds_for(dtype, {90, true}), {90, true});
}

TEST_F(Cubins, EveryKindOfScheduleForEveryArchitecture) {
  for (const Architecture& architecture : architectures())
    for (const Dtype dtype : kDtypes)
      expect_compiled(sample_of_kinds(other_kinds_for(dtype, architecture), 0), architecture);
}

#else

// bf16 differs from f16 by a type and its conversions: tools/test --full compiles all of it, here it is in
// the samples.
TEST_F(Cubins, EveryVariantInF32) { expect_compiled(kernels_for(Dtype::f32, {90, true}), {90, true}); }
TEST_F(Cubins, EveryVariantInF16) { expect_compiled(kernels_for(Dtype::f16, {90, true}), {90, true}); }

TEST_F(Cubins, ASampleForEveryArchitecture) {
  std::size_t turn = day_of_sample();
  for (const Architecture& architecture : architectures())
    for (const Dtype dtype : kDtypes) {
      const auto all = kernels_for(dtype, architecture);
      turn = turn * 31 + 17;
      expect_compiled({all[turn % all.size()]}, architecture);
    }
}

TEST_F(Cubins, OneOfEachKindOfSchedule) {
  const std::size_t day = day_of_sample();
  const Dtype dtype = kDtypes[day % std::size(kDtypes)];
  const block::Problem problem = small_case(dtype).problem();
  const lower::GpuTarget target = target_of({90, true});
  auto sample = sample_of_kinds(kernels_of_other_kinds(problem, target), day);
  sample.push_back(spilling_kernel(problem, target));
  std::string text;
  for (const auto& kernel : sample) text += kernel.body;
  for (const char* block : {"row_block_gemm", "reset_counters", "split_gemm_stage", "args.scratch"})
    EXPECT_THAT(text, testing::HasSubstr(block));
  expect_compiled(sample, {90, true});
}

#endif

}  // namespace
}  // namespace fusetune::gpu_test
