#include "backend/cuda/cuda_backend.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "backend/cuda/cubin_cache.h"
#include "backend/cuda/driver.h"
#include "installed_nvrtc.h"

namespace fusetune::backend::cuda {
namespace {

using ::testing::HasSubstr;

const Check* find(const std::vector<Check>& checks, const std::string& what) {
  for (const Check& check : checks)
    if (check.what == what) return &check;
  return nullptr;
}

TEST(Driver, DescribesEveryDevice) {
  const Driver driver(FAKE_DRIVER);
  EXPECT_EQ(driver.version(), "13.2");
  const auto devices = driver.devices();
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[0].name, "Fake H100");
  EXPECT_EQ(devices[0].compute_capability, 90);
  EXPECT_EQ(devices[0].multiprocessors, 132);
  EXPECT_EQ(devices[0].shared_bytes_per_block, 227 * 1024);
  EXPECT_EQ(devices[0].l2_bytes, 50 << 20);
  EXPECT_TRUE(devices[0].cooperative_launch);
  EXPECT_EQ(devices[1].name, "Fake A100");
  EXPECT_EQ(devices[1].compute_capability, 80);
}

TEST(Driver, NoDeviceIsNoErrorAndABrokenDriverIs) {
  {
    const ScopedVariable none("FUSETUNE_FAKE_DRIVER", "none");
    EXPECT_TRUE(Driver(FAKE_DRIVER).devices().empty());
  }
  const ScopedVariable broken("FUSETUNE_FAKE_DRIVER", "broken");
  try {
    const Driver driver(FAKE_DRIVER);
    FAIL() << "the driver started";
  } catch (const base::EnvironmentError& error) {
    EXPECT_THAT(error.what(), ::testing::AllOf(HasSubstr("cuInit"), HasSubstr("999")));
  }
}

TEST(Driver, ALibraryThatIsNoneIsNamed) {
  EXPECT_THROW(Driver("libno-such-driver.so.1"), base::EnvironmentError);
  EXPECT_THROW(Driver("libc.so.6"), base::EnvironmentError);
}

TEST(CudaBackend, NothingThatIsNotThereIsMissing) {
  for (const char* nvrtc : {"", "/no/such/libnvrtc.so"}) {
    const ScopedVariable chosen("FUSETUNE_NVRTC", nvrtc);
    const auto checks = make_cuda_backend()->diagnose({});
    ASSERT_GE(checks.size(), 2u);
    for (const Check& check : checks) {
      EXPECT_NE(check.status, Check::Status::missing) << check.what << ": " << check.detail;
      EXPECT_EQ(check.remedy.empty(), check.status == Check::Status::ok) << check.what;
    }
  }
}

TEST(CudaBackend, DoctorNamesAWrongPath) {
  const ScopedVariable chosen("FUSETUNE_NVRTC", "/no/such/libnvrtc.so");
  const auto checks = make_cuda_backend()->diagnose({});
  const Check* const nvrtc = find(checks, "NVRTC");
  ASSERT_NE(nvrtc, nullptr);
  EXPECT_EQ(nvrtc->status, Check::Status::warning);
  EXPECT_THAT(nvrtc->detail, HasSubstr("/no/such/libnvrtc.so"));
  EXPECT_EQ(find(checks, "compile a kernel"), nullptr);
}

TEST(CudaBackend, DoctorSaysWhatACacheCanDoWithoutNvrtc) {
  const base::TemporaryDirectory directory;
  const ScopedVariable cache("FUSETUNE_CACHE_DIR", directory.path().string());
  const ScopedVariable none("FUSETUNE_NVRTC", "/no/such/libnvrtc.so");
  EXPECT_THAT(find(make_cuda_backend()->diagnose({}), "NVRTC")->detail, HasSubstr("cannot be compiled"));
  CubinCache(base::cache_directory()).state({"nvrtc 13.0 libnvrtc.so.13 7", 13, 0, {90}});
  EXPECT_THAT(find(make_cuda_backend()->diagnose({}), "NVRTC")->detail,
              HasSubstr("only CUDA kernels that NVRTC 13.0 left in the cache"));
}

TEST(CudaBackend, DoctorSaysWhichCublasLtIsWhereOrHowToGetOne) {
  {
    const ScopedVariable chosen("FUSETUNE_CUBLASLT", FAKE_CUBLASLT);
    const auto checks = make_cuda_backend()->diagnose({});
    ASSERT_NE(find(checks, "cuBLASLt"), nullptr);
    EXPECT_EQ(find(checks, "cuBLASLt")->status, Check::Status::ok);
    EXPECT_THAT(find(checks, "cuBLASLt")->detail,
                HasSubstr("13.0.2 at " + std::filesystem::canonical(FAKE_CUBLASLT).string()));
  }
  const ScopedVariable chosen("FUSETUNE_CUBLASLT", "/no/such/libcublasLt.so");
  const auto checks = make_cuda_backend()->diagnose({});
  ASSERT_NE(find(checks, "cuBLASLt"), nullptr);
  EXPECT_EQ(find(checks, "cuBLASLt")->status, Check::Status::warning);
  EXPECT_THAT(find(checks, "cuBLASLt")->detail, HasSubstr("/no/such/libcublasLt.so"));
  EXPECT_THAT(find(checks, "cuBLASLt")->remedy, HasSubstr("nvidia-cublas"));
}

TEST(CudaBackend, DevicesAreEmptyOrDescribed) {
  for (const Device& device : make_cuda_backend()->devices()) EXPECT_FALSE(device.properties.empty());
}

class CudaDoctor : public CompilingTest {};

TEST_F(CudaDoctor, CompilesAKernel) {
  const auto checks = make_cuda_backend()->diagnose({});
  ASSERT_NE(find(checks, "NVRTC"), nullptr);
  EXPECT_THAT(find(checks, "NVRTC")->detail, HasSubstr("sm_90a"));
  ASSERT_NE(find(checks, "compile a kernel"), nullptr);
  EXPECT_EQ(find(checks, "compile a kernel")->status, Check::Status::ok)
      << find(checks, "compile a kernel")->detail;
}

}  // namespace
}  // namespace fusetune::backend::cuda
