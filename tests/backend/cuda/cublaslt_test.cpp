// The wrapper of cuBLASLt on a stand-in that computes what its descriptors say.
#include "backend/cuda/cublaslt.h"

#include <gmock/gmock.h>

#include <cmath>

#include "block/rounding.h"
#include "installed_nvrtc.h"

namespace fusetune::backend::cuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class FakeCublasLt : public ::testing::Test {
 protected:
  ScopedVariable library_{"FUSETUNE_CUBLASLT", FAKE_CUBLASLT};
};

std::vector<std::byte> stored(block::Dtype dtype, std::span<const float> values) {
  std::vector<std::byte> bits(values.size() * static_cast<std::size_t>(block::element_size(dtype)));
  for (std::size_t i = 0; i < values.size(); ++i)
    block::store_element(dtype, bits.data(), static_cast<std::int64_t>(i), values[i]);
  return bits;
}

std::vector<float> numbers(std::int64_t count, int period) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(static_cast<int>(i) % period - period / 2);
  return values;
}

/// Small whole numbers: every sum is exact in all formats.
void expect_row_major_product(block::Dtype dtype) {
  const GemmShape shape{.m = 3, .n = 5, .k = 7, .dtype = dtype};
  const std::vector<float> x = numbers(shape.m * shape.k, 5), w = numbers(shape.k * shape.n, 3);
  const auto x_bits = stored(dtype, x), w_bits = stored(dtype, w);
  std::vector<std::byte> y(static_cast<std::size_t>(shape.m * shape.n * block::element_size(dtype)));
  const CublasLt library;
  const CublasLtGemm gemm(library, shape, 1 << 20, 4);
  ASSERT_EQ(gemm.algorithms(), 2) << "of three, one is not supported";
  for (int algorithm = 0; algorithm < gemm.algorithms(); ++algorithm) {
    std::fill(y.begin(), y.end(), std::byte{0xff});
    gemm.launch(algorithm, x_bits.data(), w_bits.data(), y.data(), nullptr);
    for (std::int64_t i = 0; i < shape.m; ++i) {
      for (std::int64_t j = 0; j < shape.n; ++j) {
        float want = 0;
        for (std::int64_t k = 0; k < shape.k; ++k)
          want += x[static_cast<std::size_t>(i * shape.k + k)] * w[static_cast<std::size_t>(k * shape.n + j)];
        EXPECT_EQ(block::load_element(dtype, y.data(), i * shape.n + j), want) << i << ", " << j;
      }
    }
  }
}

TEST_F(FakeCublasLt, MultipliesRowMajorMatrices) {
  for (const block::Dtype dtype : {block::Dtype::f32, block::Dtype::f16, block::Dtype::bf16})
    expect_row_major_product(dtype);
}

TEST_F(FakeCublasLt, TellsItsVersionAndWhereItIs) {
  EXPECT_EQ(CublasLt().version(), "13.0.2");
  EXPECT_EQ(locate_cublaslt().version, "13.0.2");
  EXPECT_EQ(locate_cublaslt().path, std::filesystem::canonical(FAKE_CUBLASLT));
  EXPECT_EQ(find_cublaslt().version, "cuBLASLt 13.0.2");
  const ScopedVariable other("FUSETUNE_FAKE_CUBLASLT", "version:130102");
  EXPECT_EQ(find_cublaslt().version, "cuBLASLt 13.1.2");
}

// The bias belongs to a column of the row-major result, and comes before GELU.
TEST_F(FakeCublasLt, AddsABiasAndTakesTheTanhFormOfGelu) {
  const GemmShape shape{.m = 3, .n = 5, .k = 2, .dtype = block::Dtype::f32};
  const std::vector<float> x = numbers(shape.m * shape.k, 5), w = numbers(shape.k * shape.n, 3);
  const std::vector<float> bias = {0.5F, -1.5F, 2.25F, 0, -0.75F};
  std::vector<float> y(static_cast<std::size_t>(shape.m * shape.n));
  const CublasLt library;
  const CublasLtGemm gemm(library, shape, 1 << 20, 1, bias.data());
  ASSERT_EQ(gemm.algorithms(), 1);
  gemm.launch(0, x.data(), w.data(), y.data(), nullptr);
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = 0; j < 5; ++j) {
      const double sum = double{x[2 * i]} * w[j] + double{x[2 * i + 1]} * w[5 + j] + bias[j];
      const double want = sum / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (sum + 0.044715 * sum * sum * sum)));
      EXPECT_NEAR(y[5 * i + j], want, 1e-5) << i << ", " << j;
    }
  }
}

TEST_F(FakeCublasLt, AProductThatItDoesNotOfferHasNoAlgorithms) {
  const CublasLt library;
  const ScopedVariable none("FUSETUNE_FAKE_CUBLASLT", "none");
  EXPECT_EQ(CublasLtGemm(library, {.m = 1, .n = 1, .k = 1}, 0, 1).algorithms(), 0);
}

TEST_F(FakeCublasLt, SaysWhichCallFailedAndWhy) {
  const CublasLt library;
  const CublasLtGemm gemm(library, {.m = 1, .n = 1, .k = 1}, 0, 1);
  const ScopedVariable failing("FUSETUNE_FAKE_CUBLASLT", "failing");
  const std::uint16_t one = 0;
  std::uint16_t y = 0;
  try {
    gemm.launch(0, &one, &one, &y, nullptr);
    FAIL() << "multiplied";
  } catch (const base::EnvironmentError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("cublasLtMatmul failed"), HasSubstr("EXECUTION_FAILED")));
  }
}

TEST(CublasLt, AMissingOrForeignLibraryIsNamedWithTheReason) {
  for (const auto& [file, reason] : {std::pair("/no/such/libcublasLt.so", "cannot open shared object"),
                                     std::pair(FAKE_DRIVER, "has no function cublasLtCreate")}) {
    const ScopedVariable chosen("FUSETUNE_CUBLASLT", file);
    try {
      const CublasLt library;
      FAIL() << "opened " << file;
    } catch (const base::EnvironmentError& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("FUSETUNE_CUBLASLT"), HasSubstr(file), HasSubstr(reason)));
    }
  }
}

}  // namespace
}  // namespace fusetune::backend::cuda
