#include <gtest/gtest.h>

namespace {

TEST(Declarations, AreThoseOfTheToolkitsHeaders) {
  GTEST_SKIP() << "nvrtc.h, cuda.h and cublasLt.h were not found when the tests were configured: looked in "
                  "CUDA_HOME, CUDA_PATH, /usr/local/cuda and the system's include directories";
}

}  // namespace
