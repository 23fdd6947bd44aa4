// The batch is an argument of a kernel: one library for every size.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "program/gpu_kernels.h"

namespace fusetune::gpu_test {
namespace {

using block::Dtype;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

codegen::GpuKernel kernel_of(const Case& where, plan::SegmentVariant variant, const char* schedule) {
  const block::Problem problem = where.problem();
  return codegen::generate_gpu(
      variant, lower::canonical(lower::GpuSchedule::parse(schedule), variant, problem), problem, small_gpu());
}

class GpuBatch : public testing::TestWithParam<Dtype> {};

TEST_P(GpuBatch, OneLibraryServesEverySize) {
  const Case where{.dtype = GetParam(),
                   .seq = 21,
                   .heads = 1,
                   .head_size = 24,
                   .ffn = 40,
                   .mask = "sliding:window=5,padding_avg=15"};
  const auto kernels =
      compile({kernel_of(where, {{0, 14}, true}, "handoff=norm sync=rows warps=2 tile=32x32x16 stages=2"),
               kernel_of(where, {{2, 6}, false}, "warps=2 query=32"),
               kernel_of(where, {{12, 13}, false}, "warps=2 tile=32x32x16 stages=2 split=2")});
  for (const std::int64_t batch : {1, 2, 5}) {
    SCOPED_TRACE(batch);
    Case sized = where;
    sized.batch = batch;
    expect_right(sized, kernels);
  }
}

INSTANTIATE_TEST_SUITE_P(Small, GpuBatch, testing::Values(Dtype::f32, Dtype::f16, Dtype::bf16),
                         [](const auto& info) { return std::string(block::name(info.param)); });

TEST(GpuLaunch, ABatchWhoseRowsCannotBeCountedIsRefused) {
  const Case where{.seq = 1024, .heads = 2, .head_size = 16, .ffn = 32};
  const codegen::GpuKernel kernel = kernel_of(where, {{0, 0}, false}, "");
  EXPECT_GT(kernel.launch(1 << 19).blocks, 0);
  EXPECT_THAT([&] { kernel.launch((1 << 19) + 1); },
              ThrowsMessage<base::UsageError>(HasSubstr("use batches of at most 524288")));
}

}  // namespace
}  // namespace fusetune::gpu_test
