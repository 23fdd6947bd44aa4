// The NVRTC of this machine, for tests that need one.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>

#include "backend/cuda/cubin_compiler.h"
#include "backend/cuda/nvrtc.h"
#include "base/error.h"
#include "base/file.h"

namespace fusetune::backend::cuda {

/// Nothing where there is none; `reason` says why.
inline std::optional<Nvrtc> installed_nvrtc(std::string& reason) {
  try {
    return Nvrtc();
  } catch (const base::EnvironmentError& error) {
    reason = error.what();
    return std::nullopt;
  }
}

/// A test that compiles: skipped with the reason where there is no NVRTC.
class CompilingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string reason;
    nvrtc = installed_nvrtc(reason);
    if (!nvrtc) GTEST_SKIP() << reason;
  }
  std::optional<Nvrtc> nvrtc;
};

inline std::string kernel_file(const std::string& name) {
  return base::read_file(std::string(FUSETUNE_SOURCE_DIR) + "/kernels/cuda/" + name);
}

/// A self-contained unit: the platform, the contract and `body`, which may use FT_KERNEL.
inline CubinSource unit(const std::string& symbol, const std::string& body, Architecture architecture = {}) {
  return {.name = "the test's " + symbol,
          .symbol = symbol,
          .text = kernel_file("platform_nvidia.h") + kernel_file("abi.h") + body,
          .architecture = architecture};
}

/// A kernel that uses every group of the platform: copies, ldmatrix, mma, conversions, shuffles, counters.
inline CubinSource platform_probe(Architecture architecture = {}) {
  return unit("platform_probe", R"(
FT_KERNEL_ID(0x1122334455667788ull);
FT_KERNEL(platform_probe, 128) {
  FT_SHARED(shared);
  const int t = ft::thread_index();
  float* x = static_cast<float*>(args.tensor[0]);
  ft::copy_async<16>(shared + 16 * t, x + 4 * t, t < args.batch);
  ft::copy_async_commit();
  ft::copy_async_wait<0>();
  ft::block_sync();
  ft::u32 a[4];
  ft::ldmatrix_x4(a, reinterpret_cast<ft::bf16*>(shared) + 8 * (t & 31));
  float d[4] = {};
  ft::mma_16x8x16<ft::bf16>(d, a, a[0], a[1]);
  ft::mma_16x8x16<ft::f16>(d, a, a[2], a[3]);
  ft::ldmatrix_x4_transposed(a, reinterpret_cast<ft::bf16*>(shared) + 8 * (t & 31));
  float y = ft::to_float(ft::from_float<ft::bf16>(d[0])) + ft::to_float(ft::from_float<ft::f16>(d[1]));
  y += ft::shuffle_xor(y, 16) + ft::exp2_fast(d[2]) + ft::square_root(d[3]) + ft::shuffle(y, 3);
  ft::warp_sync();
  ft::grid_barrier(args.sync);
  ft::counter_add(args.sync + 1, 1);
  ft::counter_wait(args.sync + 1, 1);
  if (ft::counter_last(args.sync + 2, ft::grid_blocks(), reinterpret_cast<ft::u32*>(shared)))
    y += ft::bits_float(ft::pack_pair<ft::bf16>(y, y) + a[0] + a[1] + a[2] + a[3]);
  x[ft::block_index() * 128 + t] = y;
}
)",
              architecture);
}

/// A kernel that needs more registers than its launch bounds leave it, and static shared memory.
inline CubinSource spilling_kernel(Architecture architecture = {}) {
  return unit("spills", R"(
extern "C" __global__ void __launch_bounds__(1024) spills(const float* in, float* out, int n) {
  __shared__ float tile[256];
  float x[96];
  FT_UNROLL
  for (int i = 0; i < 96; ++i) x[i] = in[i * 1024 + threadIdx.x];
  tile[threadIdx.x & 255] = x[5];
  __syncthreads();
  for (int k = 0; k < n; ++k) {
    FT_UNROLL
    for (int i = 0; i < 96; ++i) x[i] = x[i] * x[(i + 7) % 96] + tile[(k + i) & 255];
  }
  FT_UNROLL
  for (int i = 0; i < 96; ++i) out[i * 1024 + threadIdx.x] = x[i];
}
)",
              architecture);
}

/// Sets a variable of the environment for a test's time.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const std::string& value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    setenv(name, value.c_str(), 1);
  }
  ~ScopedVariable() {
    if (old_) {
      setenv(name_, old_->c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> old_;
};

}  // namespace fusetune::backend::cuda
