// Right kernels: they give the right results in both modes and in every order of threads.
#include "backend/simt/emulator.h"

#include <cmath>
#include <cstring>
#include <map>
#include <vector>

#include "backend/simt/test_support.h"

namespace fusetune::backend::simt {
namespace {

using testing::compile;
using testing::message_of;

const std::string kKernels = R"(
// out[i] = a[i] + b[i]
FT_KERNEL(add, 64) {
  const float* a = static_cast<const float*>(args.tensor[0]);
  const float* b = static_cast<const float*>(args.tensor[1]);
  float* out = static_cast<float*>(args.tensor[2]);
  for (int i = block_index() * 64 + thread_index(); i < args.batch; i += grid_blocks() * 64) out[i] = a[i] + b[i];
}

// The sum of a row of `batch` numbers per block.
FT_KERNEL(row_sum, 128) {
  FT_SHARED(shared);
  float* partial = reinterpret_cast<float*>(shared);
  const float* row = static_cast<const float*>(args.tensor[0]) + block_index() * args.batch;
  float sum = 0;
  for (int i = thread_index(); i < args.batch; i += 128) sum += row[i];
  for (int mask = 16; mask > 0; mask /= 2) sum += shuffle_xor(sum, mask);
  if (thread_index() % 32 == 0) partial[thread_index() / 32] = sum;
  block_sync();
  const float all = partial[0] + partial[1] + partial[2] + partial[3];
  const float last = shuffle(all, 31);
  if (thread_index() == 0) static_cast<float*>(args.tensor[1])[block_index()] = last;
}

// d[16][8] = a[16][16] b[16][8], b row-major, on one warp.
template <class T>
FT_INLINE void warp_product(const ft_gpu_args& args, T* shared) {
  const T* a = static_cast<const T*>(args.tensor[0]);
  const T* b = static_cast<const T*>(args.tensor[1]);
  float* d = static_cast<float*>(args.tensor[2]);
  const int lane = thread_index();
  T* shared_a = shared;             // [16][24]
  T* shared_b = shared + 16 * 24;   // [16][8], then 16 rows nobody needs
  for (int i = lane; i < 256; i += 32) shared_a[i / 16 * 24 + i % 16] = a[i];
  for (int i = lane; i < 256; i += 32) shared_b[i] = i < 128 ? b[i] : b[i - 128];
  warp_sync();
  u32 fragment[4], other[4];
  ldmatrix_x4(fragment, shared_a + (lane % 16) * 24 + lane / 16 * 8);
  ldmatrix_x4_transposed(other, shared_b + lane * 8);
  float sum[4] = {0, 0, 0, 0};
  mma_16x8x16<T>(sum, fragment, other[0], other[1]);
  for (int i = 0; i < 4; ++i) d[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = sum[i];
}
FT_KERNEL(product_f16, 32) { FT_SHARED(shared); warp_product(args, reinterpret_cast<f16*>(shared)); }
FT_KERNEL(product_bf16, 32) { FT_SHARED(shared); warp_product(args, reinterpret_cast<bf16*>(shared)); }

// Sums rows of 64 numbers through three stages of shared memory; the last row is cut.
FT_KERNEL(pipeline, 32) {
  FT_SHARED(shared);
  float* stage = reinterpret_cast<float*>(shared);
  const float* in = static_cast<const float*>(args.tensor[0]);
  const int lane = thread_index();
  const int rows = (args.batch + 63) / 64;
  auto fetch = [&](int row) {
    if (row < rows && lane < 16) {
      const int at = row * 64 + lane * 4;
      copy_async<16>(stage + row % 3 * 64 + lane * 4, at < args.batch ? in + at : in, at < args.batch);
    }
    copy_async_commit();
  };
  fetch(0);
  fetch(1);
  float sum = 0;
  for (int row = 0; row < rows; ++row) {
    copy_async_wait<1>();
    block_sync();
    fetch(row + 2);
    sum += stage[row % 3 * 64 + lane] + stage[row % 3 * 64 + 63 - lane];
  }
  copy_async_wait<0>();
  static_cast<float*>(args.tensor[1])[lane] = sum;
}

// Three passes over [blocks * 32] numbers with a grid barrier between: each reads its mirror image.
FT_KERNEL(mirrored, 32) {
  float* data = static_cast<float*>(args.tensor[0]);
  float* other = static_cast<float*>(args.tensor[1]);
  const int n = grid_blocks() * 32, i = block_index() * 32 + thread_index();
  data[i] = float(i);
  grid_barrier(args.sync);
  other[i] = data[n - 1 - i] + 1;
  grid_barrier(args.sync);
  data[i] = other[n - 1 - i] + 1;
}

// A chain: block b waits for block b - 1's tile. Tile counters.
FT_KERNEL(chain, 64) {
  float* data = static_cast<float*>(args.tensor[0]);
  const int block = block_index(), i = thread_index();
  if (block > 0) counter_wait(args.sync + block - 1, 2);
  const float before = block > 0 ? data[(block - 1) * 64 + 63 - i] : 0;
  data[block * 64 + i] = before + 1;
  counter_add(args.sync + block, 2);
}

// The last block to arrive sums what all have written.
FT_KERNEL(last_sums, 32) {
  FT_SHARED(shared);
  const int i = thread_index();
  args.scratch[block_index() * 32 + i] = float(block_index());
  if (counter_last(args.sync, u32(grid_blocks()), reinterpret_cast<u32*>(shared))) {
    float sum = 0;
    for (int b = 0; b < grid_blocks(); ++b) sum += args.scratch[b * 32 + 31 - i];
    static_cast<float*>(args.tensor[0])[i] = sum;
  }
  if (i == 31) *reinterpret_cast<float*>(shared) = 0;  // the flag's place
}

// Two chains one after the other over the same counters, set back between them.
FT_KERNEL(two_chains, 64) {
  float* data = static_cast<float*>(args.tensor[0]);
  u32* const counters = args.sync + 1;
  const int block = block_index(), i = thread_index();
  for (int round = 0; round < 2; ++round) {
    if (block > 0) counter_wait(counters + block - 1, 1);
    const float before = block > 0 ? data[(block - 1) * 64 + 63 - i] : float(round);
    data[block * 64 + i] = before + 1;
    counter_add(counters + block, 1);
    grid_barrier(args.sync);
    if (i == 0) counters[block] = 0;
    grid_barrier(args.sync);
  }
}

// 2^x of the first 32 numbers, square roots of the next 32.
FT_KERNEL(functions, 32) {
  const float* in = static_cast<const float*>(args.tensor[0]);
  float* out = static_cast<float*>(args.tensor[1]);
  out[thread_index()] = exp2_fast(in[thread_index()]);
  out[32 + thread_index()] = square_root(in[32 + thread_index()]);
}
)";

struct Way {
  Mode mode;
  ThreadOrder order;
};

std::string name_of(const ::testing::TestParamInfo<Way>& info) {
  const char* const orders[] = {"forward", "reverse", "random"};
  return std::string(testing::mode_name(info.param.mode)) + "_" + orders[static_cast<int>(info.param.order)];
}

class EmulatorTest : public ::testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    FT_SKIP_WITHOUT_EMULATOR();
    auto& library = libraries_[GetParam().mode];
    if (!library) library = compile(kKernels, GetParam().mode);
    library_ = library.get();
  }
  static void TearDownTestSuite() { libraries_.clear(); }

  float* numbers(int count, const std::string& name, Access access = Access::read_only) {
    float* const data = memory_.allocate_array<float>(count, name, access);
    if (access != Access::uninitialised) {
      for (int i = 0; i < count; ++i) data[i] = static_cast<float>(i % 17) - 5;
    }
    return data;
  }
  unsigned* counters(int count) {
    unsigned* const words = memory_.allocate_array<unsigned>(count, "sync");
    std::fill(words, words + count, 0u);
    return words;
  }
  std::string run(const std::string& kernel, int blocks, std::int64_t shared_bytes = 0,
                  bool cooperative = false) {
    LaunchOptions options;
    options.blocks = blocks;
    options.shared_bytes = shared_bytes;
    options.cooperative = cooperative;
    options.order = GetParam().order;
    return message_of(launch(library_->kernel(kernel), args_, memory_, options));
  }

  static inline std::map<Mode, std::shared_ptr<const KernelLibrary>> libraries_;
  const KernelLibrary* library_ = nullptr;
  DeviceMemory memory_;
  ft_gpu_args args_ = {};
};

INSTANTIATE_TEST_SUITE_P(
    Ways, EmulatorTest,
    ::testing::Values(Way{Mode::fast, ThreadOrder::forward}, Way{Mode::fast, ThreadOrder::reverse},
                      Way{Mode::fast, ThreadOrder::random}, Way{Mode::checked, ThreadOrder::forward},
                      Way{Mode::checked, ThreadOrder::reverse}, Way{Mode::checked, ThreadOrder::random}),
    name_of);

TEST_P(EmulatorTest, AddsVectors) {
  constexpr int n = 1000;
  const float* a = numbers(n, "a");
  const float* b = numbers(n, "b");
  float* out = numbers(n, "out", Access::uninitialised);
  args_.tensor[0] = const_cast<float*>(a);
  args_.tensor[1] = const_cast<float*>(b);
  args_.tensor[2] = out;
  args_.batch = n;
  ASSERT_EQ(run("add", 5), "no finding");
  for (int i = 0; i < n; ++i) ASSERT_EQ(out[i], a[i] + b[i]) << i;
  EXPECT_EQ(memory_.unwritten(out), 0);
}

TEST_P(EmulatorTest, ReducesABlockThroughShuffles) {
  constexpr int rows = 3, n = 300;
  const float* in = numbers(rows * n, "in");
  float* out = numbers(rows, "out", Access::uninitialised);
  args_.tensor[0] = const_cast<float*>(in);
  args_.tensor[1] = out;
  args_.batch = n;
  ASSERT_EQ(run("row_sum", rows, 16), "no finding");
  for (int row = 0; row < rows; ++row) {
    float sum = 0;
    for (int i = 0; i < n; ++i) sum += in[row * n + i];
    EXPECT_EQ(out[row], sum) << row;  // small integers: exact in any order
  }
}

/// Small integers, which both formats hold exactly.
std::uint16_t half_of(int value, bool bf16) {
  const float number = static_cast<float>(value);
  std::uint32_t bits;
  std::memcpy(&bits, &number, sizeof(bits));
  if (bf16) return static_cast<std::uint16_t>(bits >> 16);
  if (value == 0) return 0;
  return static_cast<std::uint16_t>((bits >> 16 & 0x8000) | ((bits & 0x7fffffff) - 0x38000000) >> 13);
}

TEST_P(EmulatorTest, MultipliesMatricesOnAWarp) {
  for (const bool bf16 : {false, true}) {
    int a[16][16], b[16][8];
    auto* a_half = memory_.allocate_array<std::uint16_t>(256, "a", Access::read_only);
    auto* b_half = memory_.allocate_array<std::uint16_t>(128, "b", Access::read_only);
    for (int i = 0; i < 256; ++i) a_half[i] = half_of(a[i / 16][i % 16] = i * 7 % 31 - 15, bf16);
    for (int i = 0; i < 128; ++i) b_half[i] = half_of(b[i / 8][i % 8] = i * 5 % 29 - 14, bf16);
    float* d = numbers(128, "d", Access::uninitialised);
    args_.tensor[0] = a_half;
    args_.tensor[1] = b_half;
    args_.tensor[2] = d;
    ASSERT_EQ(run(bf16 ? "product_bf16" : "product_f16", 1, (16 * 24 + 256) * 2), "no finding");
    for (int i = 0; i < 16; ++i) {
      for (int j = 0; j < 8; ++j) {
        int sum = 0;
        for (int k = 0; k < 16; ++k) sum += a[i][k] * b[k][j];
        ASSERT_EQ(d[i * 8 + j], static_cast<float>(sum)) << i << " " << j << " bf16 " << bf16;
      }
    }
  }
}

TEST_P(EmulatorTest, PipelinesAsynchronousCopies) {
  constexpr int n = 600;  // the last row has 24 numbers
  const float* in = numbers(n, "in");
  float* out = numbers(32, "out", Access::uninitialised);
  args_.tensor[0] = const_cast<float*>(in);
  args_.tensor[1] = out;
  args_.batch = n;
  ASSERT_EQ(run("pipeline", 1, 3 * 64 * 4), "no finding");
  for (int lane = 0; lane < 32; ++lane) {
    float sum = 0;
    for (int i = 0; i < n; ++i) sum += i % 64 == lane || i % 64 == 63 - lane ? in[i] : 0;
    EXPECT_EQ(out[lane], sum) << lane;
  }
}

TEST_P(EmulatorTest, SynchronisesTheGrid) {
  constexpr int blocks = 5, n = blocks * 32;
  float* data = numbers(n, "data", Access::uninitialised);
  args_.tensor[0] = data;
  args_.tensor[1] = numbers(n, "other", Access::uninitialised);
  args_.sync = counters(1);
  for (int launch = 0; launch < 2; ++launch) {  // the word may be used again
    ASSERT_EQ(run("mirrored", blocks, 0, true), "no finding");
    for (int i = 0; i < n; ++i) ASSERT_EQ(data[i], static_cast<float>(i + 2)) << i;
    EXPECT_EQ(args_.sync[0], 0u);  // two barriers flip the upper bit twice
  }
}

TEST_P(EmulatorTest, PassesTilesThroughCounters) {
  constexpr int blocks = 7;
  float* data = numbers(blocks * 64, "data", Access::uninitialised);
  args_.tensor[0] = data;
  args_.sync = counters(blocks);
  ASSERT_EQ(run("chain", blocks, 0, true), "no finding");
  for (int i = 0; i < blocks * 64; ++i) {
    const int block = i / 64;
    ASSERT_EQ(data[i], static_cast<float>(block + 1)) << i;
  }
  for (int i = 0; i < blocks; ++i) EXPECT_EQ(args_.sync[i], 2u);
}

TEST_P(EmulatorTest, SetsCountersBack) {
  constexpr int blocks = 4;
  float* data = numbers(blocks * 64, "data", Access::uninitialised);
  args_.tensor[0] = data;
  args_.sync = counters(blocks + 1);
  ASSERT_EQ(run("two_chains", blocks, 0, true), "no finding");
  for (int i = 0; i < blocks * 64; ++i) {
    const int block = i / 64;
    ASSERT_EQ(data[i], static_cast<float>(block + 2)) << i;
  }
  for (int i = 0; i <= blocks; ++i) EXPECT_EQ(args_.sync[i], 0u);
}

TEST_P(EmulatorTest, LetsTheLastBlockReduce) {
  constexpr int blocks = 6;
  float* out = numbers(32, "out", Access::uninitialised);
  args_.tensor[0] = out;
  args_.scratch = numbers(blocks * 32, "scratch", Access::uninitialised);
  args_.sync = counters(1);
  for (const bool cooperative : {false, true}) {
    std::fill(out, out + 32, 0.0f);
    ASSERT_EQ(run("last_sums", blocks, 16, cooperative), "no finding");
    for (int i = 0; i < 32; ++i) EXPECT_EQ(out[i], 15.0f);
    EXPECT_EQ(args_.sync[0], 0u);
  }
}

TEST_P(EmulatorTest, ComputesFunctionsAsAGpuDoes) {
  float* in = memory_.allocate_array<float>(64, "in", Access::read_only);
  for (int i = 0; i < 32; ++i) in[i] = static_cast<float>(i) - 16;
  in[0] = -126;
  in[1] = -126.5f;  // the result would be subnormal
  in[2] = -INFINITY;
  for (int i = 0; i < 32; ++i) in[32 + i] = static_cast<float>(i * i);
  float* out = numbers(64, "out", Access::uninitialised);
  args_.tensor[0] = in;
  args_.tensor[1] = out;
  ASSERT_EQ(run("functions", 1), "no finding");
  EXPECT_EQ(out[0], std::ldexp(1.0f, -126));
  EXPECT_EQ(out[1], 0.0f);
  EXPECT_EQ(out[2], 0.0f);
  for (int i = 3; i < 32; ++i) EXPECT_EQ(out[i], std::ldexp(1.0f, i - 16));
  for (int i = 0; i < 32; ++i) EXPECT_EQ(out[32 + i], static_cast<float>(i));
}

TEST_P(EmulatorTest, RunsAGridOfManyBlocks) {
  constexpr int blocks = 100;
  float* data = numbers(blocks * 64, "data", Access::uninitialised);
  args_.tensor[0] = data;
  args_.sync = counters(blocks);
  ASSERT_EQ(run("chain", blocks, 0, true), "no finding");
  EXPECT_EQ(data[blocks * 64 - 1], static_cast<float>(blocks));
}

}  // namespace
}  // namespace fusetune::backend::simt
