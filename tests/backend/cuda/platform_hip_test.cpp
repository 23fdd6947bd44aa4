// kernels/cuda/platform_hip.h by the compilers that take HIP.
#include <gmock/gmock.h>

#include "base/file.h"
#include "base/subprocess.h"
#include "installed_nvrtc.h"

namespace fusetune::backend::cuda {
namespace {

using ::testing::HasSubstr;

/// hipcc, and any clang that knows AMD GPUs, which needs none of HIP's headers and libraries.
class PlatformHip : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    command_ = {GetParam()};
    try {
      const std::string targets = base::run_process({GetParam(), "-print-targets"}).output;
      if (targets.find("amdgcn") == std::string::npos) GTEST_SKIP() << GetParam() << " knows no AMD GPUs";
    } catch (const base::EnvironmentError&) {
      GTEST_SKIP() << GetParam() << " is not installed";
    }
    if (command_.front() != "hipcc") command_.insert(command_.end(), {"-x", "hip", "-nogpuinc", "-nogpulib"});
  }
  base::ProcessResult compile(const std::string& body) const {
    const base::TemporaryDirectory directory;
    const std::string source = directory.path() / "kernel.hip";
    base::write_file_atomic(source, kernel_file("platform_hip.h") + kernel_file("abi.h") + body);
    std::vector<std::string> command = command_;
    command.insert(command.end(),
                   {"--offload-arch=gfx90a", "--cuda-device-only", "-std=c++17", "-O3", "-Wall", "-Wextra",
                    "-Wno-unused-command-line-argument", "-S", source, "-o", "-"});
    return base::run_process(command);
  }
  std::vector<std::string> command_;
};

TEST_P(PlatformHip, CompilesWithoutWarnings) {
  const auto result = compile(R"(
FT_KERNEL_ID(0x1122334455667788ull);
FT_KERNEL(probe, 128) {
  FT_SHARED(shared);
  const int t = ft::thread_index();
  float* x = static_cast<float*>(args.tensor[0]);
  ft::copy_async<16>(shared + 16 * t, x + 4 * t, t < args.batch);
  ft::copy_async<8>(shared + 4096 + 8 * t, x + 4 * t, t < args.batch);
  ft::copy_async<4>(shared + 8192 + 4 * t, x + 4 * t, t < args.batch);
  ft::copy_async_commit();
  ft::copy_async_wait<0>();
  ft::block_sync();
  float v = ft::from_float<float>(ft::to_float(reinterpret_cast<float*>(shared)[t]));
  FT_UNROLL
  for (int mask = 16; mask > 0; mask /= 2) v += ft::shuffle_xor(v, mask);
  v += ft::shuffle(v, 3) + ft::exp2_fast(v) + ft::square_root(v) + ft::bits_float(ft::float_bits(v));
  ft::warp_sync();
  ft::grid_barrier(args.sync);
  ft::counter_add(args.sync + 1, 1);
  ft::counter_wait(args.sync + 1, 1);
  if (ft::counter_last(args.sync + 2, ft::grid_blocks(), reinterpret_cast<ft::u32*>(shared))) v += 1;
  x[ft::block_index() * 128 + t] = v;
}
)");
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(result.output.find("warning:"), std::string::npos) << result.output;
  EXPECT_THAT(result.output, HasSubstr("ft_kernel_id"));
  EXPECT_THAT(result.output, HasSubstr("ds_bpermute_b32"));
  EXPECT_THAT(result.output, HasSubstr("s_barrier"));
}

TEST_P(PlatformHip, MatrixProductsAreRefusedByName) {
  const auto result = compile(R"(
FT_KERNEL(probe, 32) {
  float d[4] = {};
  ft::u32 a[4] = {};
  ft::mma_16x8x16<ft::bf16>(d, a, 0, 0);
  static_cast<float*>(args.tensor[0])[0] = d[0];
}
)");
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.output, HasSubstr("deleted function 'mma_16x8x16'"));
}

INSTANTIATE_TEST_SUITE_P(Compilers, PlatformHip, ::testing::Values("clang-16", "hipcc"),
                         [](const auto& test) {
                           return std::string(test.param) == "hipcc" ? "hipcc" : "clang";
                         });

}  // namespace
}  // namespace fusetune::backend::cuda
