#include "backend/cuda/cubin_image.h"

#include <gmock/gmock.h>

#include "installed_nvrtc.h"

namespace fusetune::backend::cuda {
namespace {

class CubinImage : public CompilingTest {
 protected:
  std::string compiled(const CubinSource& source) {
    const CubinResult result = CubinCompiler(*nvrtc, CubinOptions()).compile({&source, 1}).front();
    EXPECT_EQ(result.status, CubinResult::Status::ok) << result.log;
    return result.cubin;
  }
};

TEST_F(CubinImage, TheKernelsIdentityIsKeptThoughNothingReadsIt) {
  for (const Architecture& architecture : supported_architectures(nvrtc->architectures()))
    EXPECT_EQ(kernel_id(compiled(platform_probe(architecture))), 0x1122334455667788u) << architecture.name();
}

TEST_F(CubinImage, AnImageWithoutItHasNone) {
  EXPECT_EQ(kernel_id(compiled(spilling_kernel())), std::nullopt);
}

TEST_F(CubinImage, ACutOrChangedImageIsReadWithinItsBounds) {
  const std::string image = compiled(platform_probe());
  for (std::size_t bytes = 0; bytes < image.size(); bytes += 7) {
    const std::string cut = image.substr(0, bytes);  // its end is the end of its memory
    const auto id = kernel_id(cut);
    EXPECT_TRUE(!id || *id == 0x1122334455667788u) << bytes;
  }
  for (std::size_t at = 0; at < image.size(); at += 3) {
    std::string changed = image;
    changed[at] = static_cast<char>(~changed[at]);
    kernel_id(changed);
  }
}

TEST(KernelId, WhatIsNoImageHasNone) {
  EXPECT_EQ(kernel_id(""), std::nullopt);
  EXPECT_EQ(kernel_id("\x7f"
                      "ELF"),
            std::nullopt);
  EXPECT_EQ(kernel_id(std::string(4096, '\xff')), std::nullopt);
}

}  // namespace
}  // namespace fusetune::backend::cuda
