// What a GPU bundle is made of: what stands in for a library's products, the emulator's verdict on its
// kernels.
#include "cli/cuda_export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/simt/kernel_library.h"
#include "base/error.h"
#include "base/file.h"

namespace fusetune::cli {
namespace {

using testing::HasSubstr;

class EmulatedExport : public testing::Test {
 protected:
  void SetUp() override {
    const std::string reason = backend::simt::unavailable_reason();
    if (!reason.empty()) GTEST_SKIP() << reason;
    problem_.batch = 2;
    problem_.seq = 20;
    problem_.heads = 1;
    problem_.head_size = 16;
    problem_.ffn = 24;
  }
  /// The whole block as one kernel of several stages.
  codegen::GpuKernel kernel() const {
    const plan::SegmentVariant all{{0, 14}, false};
    return codegen::generate_gpu(all, lower::default_schedule(all, problem_, lower::GpuTarget{}), problem_,
                                 {});
  }
  Emulated emulate(const codegen::GpuKernel& kernel) const {
    return cli::emulate(problem_, {{kernel, {}, 0}}, {.jobs = 1, .compile_timeout = 120, .run_timeout = 120});
  }
  block::Problem problem_;
};

TEST_F(EmulatedExport, NothingFoundIsAVerdictAtOneEntry) {
  const Emulated emulated = emulate(kernel());
  ASSERT_TRUE(emulated.verdict) << emulated.finding;
  EXPECT_EQ(emulated.verdict->batch, 1);
  EXPECT_EQ(emulated.verdict->kernels.size(), 1u);
  EXPECT_GT(emulated.verdict->plan.norm_error, 0);
}

TEST_F(EmulatedExport, AMaskOfSeveralEntriesIsEmulatedWhole) {
  problem_.mask = block::MaskSpec::parse("causal:padding_lengths=20/7");
  const Emulated emulated = emulate(kernel());
  ASSERT_TRUE(emulated.verdict) << emulated.finding;
  EXPECT_EQ(emulated.verdict->batch, 2);
}

TEST_F(EmulatedExport, AMissingBarrierIsAFinding) {
  codegen::GpuKernel broken = kernel();
  const std::string barrier = "grid_barrier(args.sync);";
  const std::size_t at = broken.body.find(barrier);
  ASSERT_NE(at, std::string::npos) << broken.body;
  broken.body.erase(at, barrier.size());
  const Emulated emulated = emulate(broken);
  EXPECT_FALSE(emulated.verdict);
  EXPECT_THAT(emulated.finding, HasSubstr("[0-14]: "));
}

TEST_F(EmulatedExport, WhatDoesNotCompileIsAFinding) {
  codegen::GpuKernel broken = kernel();
  broken.body += "no C++\n";
  EXPECT_THAT(emulate(broken).finding, HasSubstr("does not compile"));
}

/// [10-11] by the library, in a plan of three kernels.
class ReplacedLibrary : public testing::Test {
 protected:
  ReplacedLibrary() {
    problem_.gelu = block::Gelu::tanh;
    target_.library = lower::GpuLibrary{.version = "cuBLASLt 13.0.2", .missing = {}};
  }
  /// Of a table whose schedule comes from `origin`.
  std::vector<plan::SegmentVariant> replace(std::string_view origin) {
    ScheduleTable without(problem_, bundle_target(target_));
    without.set(variant_, kernel_, "recorded");
    table_.set(variant_, lower::GpuSchedule::parse("product=library"), origin);
    return replace_library(plan::FusionPlan(1U << 9 | 1U << 11, false), table_, without);
  }

  block::Problem problem_;
  lower::GpuTarget target_;
  plan::SegmentVariant variant_{{10, 11}, false};
  lower::GpuSchedule kernel_ = lower::GpuSchedule::parse("warps=8 tile=128x128x32");
  ScheduleTable table_{problem_, target_};
};

TEST_F(ReplacedLibrary, GetsTheFastestKernelWithBiasAndGelu) {
  EXPECT_EQ(replace("recorded"), std::vector{variant_});
  EXPECT_EQ(*table_(variant_).gpu(), kernel_);
  EXPECT_EQ(table_.origin(variant_), "recorded");
}

TEST_F(ReplacedLibrary, IsRefusedWhereTheUserAskedForIt) {
  try {
    replace("given");
    FAIL() << "replaced";
  } catch (const base::UsageError& error) {
    EXPECT_THAT(error.what(), testing::AllOf(HasSubstr("[10-11]"), HasSubstr("generated kernels only")));
  }
}

}  // namespace
}  // namespace fusetune::cli
