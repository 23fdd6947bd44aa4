#include "backend/cpu/device_block.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <set>

#include "backend/cpu/guarded_buffer.h"
#include "backend/test_kernels.h"
#include "base/error.h"

namespace fusetune::backend::cpu {
namespace {

using block::Tensor;
using block::Weight;
using codegen::KernelSource;
using codegen::PanelLayout;
using testing::compile_one;
using ::testing::HasSubstr;
using testing::make_kernel;
using testing::system_compiler;

/// A small problem whose sizes are multiples of nothing: D = 15, F = 20, S = 70 (two mask tiles).
block::Problem small_problem() {
  block::Problem problem;
  problem.batch = 2;
  problem.seq = 70;
  problem.heads = 3;
  problem.head_size = 5;
  problem.ffn = 20;
  return problem;
}

/// Numbered values, so that every element is known.
block::BlockData numbered_data(const block::Problem& problem) {
  block::BlockData data;
  for (int w = 0; w < block::kWeightCount; ++w) {
    const auto [k, n] = problem.shape(static_cast<Weight>(w));
    for (std::int64_t i = 0; i < k * n; ++i) data.weights[w].push_back(static_cast<float>(1000 * w + i));
  }
  for (int p = 0; p < block::kParameterCount; ++p) {
    data.parameters[p].assign(static_cast<std::size_t>(problem.elements(static_cast<block::Parameter>(p))),
                              static_cast<float>(p) + 1);
  }
  for (std::int64_t i = 0; i < problem.elements(Tensor::hidden); ++i)
    data.hidden.push_back(static_cast<float>(i));
  return data;
}

class DeviceBlockTest : public ::testing::Test {
 protected:
  LoadedKernel load(const KernelSource& source) { return LoadedKernel(compile_one(compiler_, source)); }

  /// Loads and runs on one thread.
  void run(const KernelSource& source) {
    const LoadedKernel kernel = load(source);
    const Launch launch{kernel.function(), block_.arguments(kernel)};
    Runner(1).run({&launch, 1});
  }

  KernelSource source(const std::string& statements, std::vector<Tensor> writes) {
    KernelSource kernel = make_kernel("ft_test_" + std::to_string(counter_++), statements);
    kernel.writes = std::move(writes);
    return kernel;
  }

  int counter_ = 0;
  KernelCompiler compiler_{system_compiler(), lower::Isa::generic, {}};
  block::Problem problem_ = small_problem();
  block::Mask mask_{problem_.mask, problem_.batch, problem_.seq};
  block::BlockData data_ = numbered_data(problem_);
  DeviceBlock block_{problem_, mask_, data_, 2};
};

std::string index_of(Tensor tensor) { return std::to_string(static_cast<int>(tensor)); }

/// "((float*)args->tensor[T])[element] = value;"
std::string store(Tensor tensor, std::int64_t element, const std::string& value) {
  return "((float*)args->tensor[" + index_of(tensor) + "])[" + std::to_string(element) + "L] = " + value +
         ";";
}

TEST_F(DeviceBlockTest, TensorsStartPoisonedAndTheInputWithItsData) {
  EXPECT_EQ(block_.tensor_view(Tensor::hidden).size(), static_cast<std::size_t>(2 * 70 * 15));
  EXPECT_EQ(block_.tensor_view(Tensor::hidden)[17], 17.0f);
  for (const float value : block_.tensor_view(Tensor::output)) ASSERT_TRUE(std::isnan(value));
  EXPECT_EQ(block_.tensor_view(Tensor::scores).size(), static_cast<std::size_t>(2 * 3 * 70 * 70));
  for (int t = 0; t < block::kTensorCount; ++t) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block_.tensor(static_cast<Tensor>(t))) % 64, 0u) << t;
  }
}

TEST_F(DeviceBlockTest, WritesConvertAndPoisonErases) {
  std::vector<double> values(2 * 70 * 15, 0.1);
  values[3] = -INFINITY;
  block_.write(Tensor::norm1, values);
  EXPECT_EQ(block_.tensor_view(Tensor::norm1)[0], 0.1f);
  EXPECT_EQ(block_.tensor_view(Tensor::norm1)[3], -INFINITY);
  block_.poison(Tensor::norm1);
  for (const float value : block_.tensor_view(Tensor::norm1)) ASSERT_TRUE(std::isnan(value));
  values.pop_back();
  EXPECT_THROW(block_.write(Tensor::norm1, values), base::InternalError);
}

TEST_F(DeviceBlockTest, OneFloatPastTheEndIsNoticedAndNamed) {
  const std::int64_t count = problem_.elements(Tensor::norm1);
  run(source(store(Tensor::norm1, count - 1, "1.0f") + store(Tensor::norm1, 0, "1.0f"), {Tensor::norm1}));
  EXPECT_EQ(block_.check_guards(), "");
  run(source(store(Tensor::norm1, count, "0.0f"), {Tensor::norm1}));
  EXPECT_EQ(block_.check_guards(), "norm1 (after its end)");
  EXPECT_EQ(block_.check_guards(), "");  // reported once
  run(source(store(Tensor::q, -1, "1.0f"), {Tensor::q}));
  EXPECT_EQ(block_.check_guards(), "q (before its start)");
  run(source(store(Tensor::q, -1000, "1.0f") + store(Tensor::v, problem_.elements(Tensor::v) + 1000, "1.0f"),
             {Tensor::q, Tensor::v}));
  EXPECT_EQ(block_.check_guards(), "q (before its start), v (after its end)");
}

TEST_F(DeviceBlockTest, OneByteIsEnough) {
  const std::int64_t bytes = 4 * problem_.elements(Tensor::output);
  run(source("((char*)args->tensor[17])[" + std::to_string(bytes) + "] ^= 1;", {Tensor::output}));
  EXPECT_EQ(block_.check_guards(), "output (after its end)");
}

TEST_F(DeviceBlockTest, ScratchIsGuardedForEveryThread) {
  KernelSource kernel =
      source("args->scratch[100 - 1] = 1; args->scratch[args->scratch_stride + 100 - 1] = 1;", {});
  kernel.scratch_bytes = 100;
  run(kernel);
  EXPECT_EQ(block_.check_guards(), "");
  kernel = source("args->scratch[128] = 1;", {});  // 100 rounded up to a cache line
  kernel.scratch_bytes = 100;
  run(kernel);
  EXPECT_EQ(block_.check_guards(), "scratch (past a thread's part)");
  kernel = source("args->scratch[2 * args->scratch_stride] = 1;", {});
  kernel.scratch_bytes = 100;
  run(kernel);
  EXPECT_EQ(block_.check_guards(), "scratch (after its end)");
}

TEST_F(DeviceBlockTest, ScratchGrowsAndEarlierArgumentsFollow) {
  KernelSource small = source("", {Tensor::q}), large = source("", {Tensor::k});
  small.scratch_bytes = 1000;
  large.scratch_bytes = 1000000;
  const LoadedKernel small_kernel = load(small), large_kernel = load(large);
  const ft_args* first = block_.arguments(small_kernel);
  EXPECT_GE(first->scratch_stride, 1000);
  const ft_args* second = block_.arguments(large_kernel);
  EXPECT_GE(second->scratch_stride, 1000000);
  EXPECT_EQ(first->scratch, second->scratch);
  EXPECT_EQ(first->scratch_stride, second->scratch_stride);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(second->scratch) % 64, 0u);
  EXPECT_EQ(second->scratch_stride % 64, 0);
}

TEST_F(DeviceBlockTest, OnlyDeclaredTensorsAndWeightsAreThere) {
  KernelSource kernel = source("", {Tensor::q});
  kernel.reads = {Tensor::hidden};
  kernel.workspace = {Tensor::qkv};
  kernel.layouts[static_cast<int>(Weight::w_out)] = PanelLayout{.panel = 16, .group = 0};
  const LoadedKernel loaded = load(kernel);
  const ft_args* args = block_.arguments(loaded);
  for (int t = 0; t < block::kTensorCount; ++t) {
    const auto tensor = static_cast<Tensor>(t);
    const bool declared = tensor == Tensor::hidden || tensor == Tensor::q || tensor == Tensor::qkv;
    EXPECT_EQ(args->tensor[t] != nullptr, declared) << block::name(tensor);
    if (declared) {
      EXPECT_EQ(args->tensor[t], block_.tensor(tensor));
    }
  }
  for (int w = 0; w < block::kWeightCount; ++w) {
    EXPECT_EQ(args->weight[w] != nullptr, w == static_cast<int>(Weight::w_out)) << w;
  }
  EXPECT_EQ(args->batch, 2);
  EXPECT_EQ(block_.arguments(loaded), args);
}

TEST_F(DeviceBlockTest, ParametersArePaddedWithZeros) {
  const LoadedKernel kernel = load(source("", {}));
  const ft_args* args = block_.arguments(kernel);
  for (int p = 0; p < block::kParameterCount; ++p) {
    const auto count = problem_.elements(static_cast<block::Parameter>(p));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(args->parameter[p]) % 64, 0u);
    for (std::int64_t i = 0; i < count; ++i) ASSERT_EQ(args->parameter[p][i], static_cast<float>(p) + 1);
    for (std::int64_t i = count; i < 64; ++i) ASSERT_EQ(args->parameter[p][i], 0.0f);
  }
}

TEST_F(DeviceBlockTest, WeightsArePackedInTheLayoutThatTheKernelDeclares) {
  const PanelLayout layout{.panel = 8, .group = 0};
  KernelSource kernel = source("", {});
  kernel.layouts[static_cast<int>(Weight::w_ffn1)] = layout;
  const auto [k, n] = problem_.shape(Weight::w_ffn1);
  std::vector<float> expected(static_cast<std::size_t>(layout.elements(k, n)));
  codegen::pack_weight(data_[Weight::w_ffn1].data(), k, n, layout, expected.data());
  const LoadedKernel loaded = load(kernel);
  const auto* packed =
      static_cast<const float*>(block_.arguments(loaded)->weight[static_cast<int>(Weight::w_ffn1)]);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(packed) % 64, 0u);
  EXPECT_EQ(std::vector<float>(packed, packed + expected.size()), expected);
  EXPECT_EQ(packed[0], 2000.0f);
  EXPECT_EQ(packed[8], 2020.0f);  // second row of the first panel
}

class Rotation : public DeviceBlockTest {
 protected:
  Rotation() {
    KernelSource kernel = source("", {});
    kernel.layouts[static_cast<int>(Weight::w_ffn1)] = layout_;
    one_.emplace(load(kernel));
    kernel = source("", {});
    kernel.layouts[static_cast<int>(Weight::w_ffn1)] = layout_;
    kernel.layouts[static_cast<int>(Weight::w_ffn2)] = layout_;
    two_.emplace(load(kernel));
    const auto [k1, n1] = problem_.shape(Weight::w_ffn1);
    const auto [k2, n2] = problem_.shape(Weight::w_ffn2);
    bytes1_ = 4 * layout_.elements(k1, n1);
    bytes2_ = 4 * layout_.elements(k2, n2);
  }
  const void* weight(const LoadedKernel& kernel, int copy) {
    return block_.arguments(kernel, copy)->weight[static_cast<int>(Weight::w_ffn1)];
  }
  int copies(std::vector<const LoadedKernel*> kernels) { return block_.copies(kernels); }

  const PanelLayout layout_{.panel = 8, .group = 0};
  std::optional<LoadedKernel> one_, two_;
  std::int64_t bytes1_ = 0, bytes2_ = 0;
};

TEST_F(Rotation, OneCopyWithoutIt) {
  EXPECT_EQ(copies({&*one_, &*two_}), 1);
  EXPECT_EQ(weight(*one_, 0), weight(*one_, 5));
  block_.set_rotation_bytes(bytes1_);
  EXPECT_EQ(copies({&*one_}), 1);
}

TEST_F(Rotation, AsManyCopiesAsSpanTheBytesOfTheDistinctWeights) {
  block_.set_rotation_bytes(10 * bytes1_ + 1);
  EXPECT_EQ(copies({&*one_}), 11);
  EXPECT_EQ(copies({&*one_, &*one_}), 11);  // the same weight twice is one weight
  const std::int64_t both = bytes1_ + bytes2_;
  EXPECT_EQ(copies({&*one_, &*two_}), (10 * bytes1_ + both) / both);
  const LoadedKernel without_weights = load(source("", {}));
  EXPECT_EQ(copies({&without_weights}), 1);
  EXPECT_EQ(copies({}), 1);
}

TEST_F(Rotation, CopiesAreDistinctMemoryWithTheSameContent) {
  block_.set_rotation_bytes(4 * bytes1_);
  std::set<const void*> distinct;
  for (int copy = 0; copy < 4; ++copy) {
    distinct.insert(weight(*one_, copy));
    EXPECT_EQ(std::memcmp(weight(*one_, copy), weight(*one_, 0), static_cast<std::size_t>(bytes1_)), 0);
  }
  EXPECT_EQ(distinct.size(), 4u);
  EXPECT_EQ(weight(*one_, 4), weight(*one_, 0));
  EXPECT_EQ(weight(*one_, 7), weight(*one_, 3));
  const ft_args* third = block_.arguments(*one_, 2);
  EXPECT_EQ(block_.arguments(*one_, 2), third);
  EXPECT_EQ(weight(*two_, 1), weight(*one_, 1));  // kernels share copies of a weight
  EXPECT_EQ(block_.check_guards(), "");
}

TEST_F(Rotation, HugeDemandsAreBounded) {
  block_.set_rotation_bytes(INT64_MAX);
  const int count = copies({&*one_});
  EXPECT_GT(count, 100);
  EXPECT_LE(count, 1024);
}

TEST(DeviceBlock, MaskIsGivenInTilesWithLengthsOnlyWherePadded) {
  const auto arguments_of = [](const char* spec, auto check) {
    block::Problem problem = small_problem();
    problem.mask = block::MaskSpec::parse(spec);
    const block::Mask mask(problem.mask, problem.batch, problem.seq);
    DeviceBlock device(problem, mask, numbered_data(problem), 1);
    KernelCompiler compiler(system_compiler(), lower::Isa::generic, {});
    const LoadedKernel kernel(compile_one(compiler, make_kernel("ft_mask_test", "")));
    check(device.arguments(kernel)->mask, mask);
  };
  arguments_of("causal", [](const ft_mask& given, const block::Mask&) {
    EXPECT_EQ(given.entries, 1);
    EXPECT_EQ(given.tile_rows, 2);
    EXPECT_EQ(given.length, nullptr);
    EXPECT_EQ(given.row_begin[0], 0);
    EXPECT_EQ(given.row_begin[1], 1);  // tile (0, 1) is empty
    EXPECT_EQ(given.row_begin[2], 3);
    EXPECT_EQ(given.bits[64 * given.bitmap[0] + 5], 0x3Full);  // row 5 sees keys 0..5
  });
  arguments_of("padding:lengths=70/3", [](const ft_mask& given, const block::Mask& mask) {
    EXPECT_EQ(given.entries, 2);
    ASSERT_NE(given.length, nullptr);
    EXPECT_EQ(given.length[0], 70);
    EXPECT_EQ(given.length[1], 3);
    for (int j = 0; j < 70; ++j) {
      EXPECT_EQ(given.key_used[j], 1) << j;
      EXPECT_EQ(given.key_used[70 + j], j < 3) << j;
    }
    // The bitmaps say what the mask says.
    for (int b = 0; b < 2; ++b) {
      std::map<std::pair<int, int>, bool> seen;
      for (int i = 0; i < 70; ++i) {
        const int row = b * 2 + i / 64;
        for (int t = given.row_begin[row]; t < given.row_begin[row + 1]; ++t) {
          for (int c = 0; c < 64 && given.column[t] * 64 + c < 70; ++c) {
            const bool full = given.bitmap[t] < 0;
            seen[{i, given.column[t] * 64 + c}] =
                full || (given.bits[64L * given.bitmap[t] + i % 64] >> c & 1);
          }
        }
        for (int j = 0; j < 70; ++j) {
          ASSERT_EQ((seen[{i, j}]), mask.visible(b, i, j)) << b << " " << i << " " << j;
        }
      }
    }
  });
}

TEST(DeviceBlock, RefusesAnotherDtypeByName) {
  block::Problem problem = small_problem();
  problem.dtype = block::Dtype::bf16;
  const block::Mask mask(problem.mask, problem.batch, problem.seq);
  try {
    DeviceBlock device(problem, mask, numbered_data(problem), 1);
    FAIL() << "accepted";
  } catch (const base::UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("bf16"));
  }
}

TEST(GuardedBuffer, LargeBuffersAreGuardedToTheByteToo) {
  GuardedBuffer buffer((std::size_t{3} << 20) + 3, 5, "test");
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 64, 0u);
  buffer.data()[buffer.bytes() - 1] = std::byte{1};
  EXPECT_EQ(buffer.damage(), GuardedBuffer::Damage::none);
  buffer.data()[buffer.bytes()] = std::byte{1};
  EXPECT_EQ(buffer.damage(), GuardedBuffer::Damage::after);
  buffer.data()[-1] = std::byte{1};
  EXPECT_EQ(buffer.damage(), GuardedBuffer::Damage::both);
  buffer.restore_guards();
  EXPECT_EQ(buffer.damage(), GuardedBuffer::Damage::none);
}

TEST(GuardedBuffer, ImpossibleSizesAreErrorsWithTheBytes) {
  try {
    GuardedBuffer buffer(std::size_t{1} << 60, 0, "tensor scores");
    FAIL() << "allocated";
  } catch (const base::EnvironmentError& error) {
    EXPECT_THAT(error.what(), ::testing::AllOf(HasSubstr("tensor scores"), HasSubstr("1152921504606846976")));
  }
}

}  // namespace
}  // namespace fusetune::backend::cpu
