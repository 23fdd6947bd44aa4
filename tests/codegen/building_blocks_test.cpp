// The building blocks under kernels/, called directly: accuracy of the vector maths, LayerNorm, softmax and
// the micro-kernel at one vector width (FUSETUNE_LANES).
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace ft {
constexpr int kLanes = FUSETUNE_LANES;
}
// In the order a translation unit has them.
// clang-format off
#include "cpu/abi.h"
#include "cpu/vector.h"
#include "ops/math.h"
#include "cpu/partition.h"
#include "cpu/gemm.h"
#include "cpu/stores.h"
#include "cpu/rows.h"
#include "cpu/attention.h"
// clang-format on

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

template <class F>
float lane0(F f, float x) {
  return f(ft::splat<ft::vec>(x))[0];
}

TEST(Math, ExpIsWithinTwoEMinusSevenRelative) {
  double worst = 0;
  for (double x = -86.9; x < 88; x += 0.00037) {
    const float at = static_cast<float>(x);
    const double want = std::exp(static_cast<double>(at));
    worst = std::max(worst, std::fabs(lane0([](ft::vec v) { return ft::exp(v); }, at) / want - 1));
  }
  EXPECT_LT(worst, 2e-7);
}

TEST(Math, ExpOfMaskedScoresIsExactlyZero) {
  for (const float x : {-kInf, -1e30f, -1000.0f, -87.5f})
    EXPECT_EQ(lane0([](ft::vec v) { return ft::exp(v); }, x), 0.0f) << x;
  EXPECT_TRUE(std::isnan(lane0([](ft::vec v) { return ft::exp(v); }, NAN)));
}

TEST(Math, ErfIsWithinFiveEMinusSeven) {
  double worst = 0;
  for (double x = -6; x < 6; x += 0.0001) {
    const float at = static_cast<float>(x);
    worst =
        std::max(worst, std::fabs(lane0([](ft::vec v) { return ft::erf(v); }, at) - std::erf(double(at))));
  }
  EXPECT_LT(worst, 5e-7);
}

TEST(Math, GeluIsTheErfFormEverywhere) {
  for (const double x : {-13.24, -2.70, -0.5, 0.0, 0.3, 2.7, 11.0, 100.0}) {
    const double want = 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    EXPECT_NEAR(lane0(ft::GeluErf{}, static_cast<float>(x)), want, 2e-6 + 1e-7 * std::fabs(x)) << x;
  }
  EXPECT_EQ(lane0(ft::GeluErf{}, 100.0f), 100.0f);
  EXPECT_EQ(lane0(ft::GeluErf{}, 0.0f), 0.0f);
}

TEST(Math, GeluTanhDiffersFromErfWhereItShould) {
  for (const double x : {-13.24, -2.70, 0.0, 2.7, 100.0}) {
    const double want = 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    EXPECT_NEAR(lane0(ft::GeluTanh{}, static_cast<float>(x)), want, 2e-6) << x;
  }
  EXPECT_GT(std::fabs(lane0(ft::GeluTanh{}, -2.7f) - lane0(ft::GeluErf{}, -2.7f)), 4e-4);
}

/// gamma 1, beta as given, padded as the runner pads parameters.
std::vector<float> padded(std::size_t n, float value) {
  std::vector<float> x((n + 63) / 64 * 64, 0.0f);
  std::fill(x.begin(), x.begin() + static_cast<long>(n), value);
  return x;
}

TEST(LayerNorm, KeepsTheDigitsOfALargeMean) {
  std::vector<float> x(16), y(16);
  for (int i = 0; i < 16; ++i) x[i] = static_cast<float>(1000 + 0.001 * i);
  ft::layernorm_row(x.data(), 16, padded(16, 1).data(), padded(16, 0).data(), 1e-5f, y.data());
  EXPECT_NEAR(y[0], -1.3415, 1e-3);  // plain two-pass in float32 gives -1.31, one pass -2.37
  double mean = 0, variance = 0;
  for (const float v : x) mean += v / 16.0;
  for (const float v : x) variance += (v - mean) * (v - mean) / 16;
  for (int i = 0; i < 16; ++i) EXPECT_NEAR(y[i], (x[i] - mean) / std::sqrt(variance + 1e-5), 1e-4) << i;
}

TEST(LayerNorm, AConstantRowIsExactlyBeta) {
  for (const long n : {1L, 3L, 31L, 33L, 2880L})
    for (const float value : {0.0f, 1.0f, 3e4f, -7.3f}) {
      std::vector<float> x(n, value), y(n + 1, 99.0f);
      ft::layernorm_row(x.data(), n, padded(n, 2).data(), padded(n, 0.25f).data(), 1e-12f, y.data());
      for (long i = 0; i < n; ++i) ASSERT_EQ(y[i], 0.25f) << n << " " << value;
      EXPECT_EQ(y[n], 99.0f) << "wrote past the row";
    }
}

TEST(LayerNorm, EveryRowLengthAgreesWithFloat64) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (const long n : {2L, 5L, 16L, 31L, 33L, 63L, 65L, 100L, 2880L}) {
    std::vector<float> x(n), y(n);
    for (float& v : x) v = normal(random) + 5;
    double mean = 0, variance = 0;
    for (const float v : x) mean += v / double(n);
    for (const float v : x) variance += (v - mean) * (v - mean) / double(n);
    ft::layernorm_row(x.data(), n, padded(n, 1).data(), padded(n, 0).data(), 1e-5f, y.data());
    for (long i = 0; i < n; ++i) ASSERT_NEAR(y[i], (x[i] - mean) / std::sqrt(variance + 1e-5), 1e-5) << n;
  }
}

TEST(Softmax, MaskedKeysWeighNothingAndFullyMaskedRowsAreZero) {
  const long S = 33, ld = 64;
  std::vector<float> x(3 * ld, -kInf);
  for (long j = 0; j < 32; j += 2) x[j] = 1.0f;  // row 0: every other key
  x[ld + 32] = -50.0f;                           // row 1: only the last key
  std::vector<float> y = x;
  ft::softmax_rows(y.data(), ld, 3, S, nullptr);
  for (long j = 0; j < S; ++j) {
    EXPECT_NEAR(y[j], j < 32 && j % 2 == 0 ? 1.0 / 16 : 0.0, 1e-7) << j;
    EXPECT_EQ(y[ld + j], j == 32 ? 1.0f : 0.0f) << j;
    EXPECT_EQ(y[2 * ld + j], 0.0f) << j;
  }
  for (long j = 1; j < 32; j += 2) EXPECT_EQ(y[j], 0.0f) << j;
}

/// 0 * NaN is NaN, so rows that no query sees must not reach the products, nor what lies past the
/// end.
TEST(Packing, RowsThatNoQuerySeesAreZeroWhateverTheyHold) {
  const long S = 33, W = 20, padded = ft::round_up(S, ft::kHeadPanel);
  std::vector<float> rows(S * W, 1.0f);
  std::vector<unsigned char> used(S, 1);
  for (const long masked : {3L, 32L}) {
    used[masked] = 0;
    for (long w = 0; w < W; ++w) rows[masked * W + w] = w % 2 ? kInf : std::nanf("");
  }
  const ft::HeadRows head{rows.data(), W, nullptr};
  std::vector<float> keys(padded * W, std::nanf("")),
      values(ft::round_up(W, ft::kHeadPanel) * S, std::nanf(""));
  ft::pack_keys(head, used.data(), S, W, keys.data());
  ft::pack_values(head, used.data(), S, W, values.data());
  for (long j = 0; j < padded; ++j)
    for (long w = 0; w < W; ++w)
      EXPECT_EQ(keys[(j / ft::kHeadPanel * W + w) * ft::kHeadPanel + j % ft::kHeadPanel],
                j < S && used[j] ? 1.0f : 0.0f)
          << "key " << j << ", column " << w;
  for (long s = 0; s < S; ++s)
    for (long w = 0; w < ft::round_up(W, ft::kHeadPanel); ++w)
      EXPECT_EQ(values[(w / ft::kHeadPanel * S + s) * ft::kHeadPanel + w % ft::kHeadPanel],
                used[s] && w < W ? 1.0f : 0.0f)
          << "value " << s << ", column " << w;
}

TEST(Gemm, EveryRowCountAndDepthAgreesWithFloat64) {
  constexpr int kRows = ft::kHeadRows, kVectors = ft::kHeadVectors;
  constexpr long width = kVectors * ft::kLanes;
  std::mt19937 random(2);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (long rows = 1; rows <= 2 * kRows + 1; ++rows)
    for (const long k : {1L, 2L, 7L, 40L}) {
      const long lda = k + 3;
      std::vector<float> a(rows * lda), panel(k * width), c(rows * width + 1, 1.0f);
      for (float& v : a) v = uniform(random);
      for (float& v : panel) v = uniform(random);
      ft::multiply_rows<kRows, kVectors>(a.data(), lda, rows, panel.data(), k, c.data(), width, true, nullptr,
                                         {});
      for (long r = 0; r < rows; ++r)
        for (long j = 0; j < width; ++j) {
          double want = 1;
          for (long p = 0; p < k; ++p) want += double(a[r * lda + p]) * double(panel[p * width + j]);
          ASSERT_NEAR(c[r * width + j], want, 1e-5) << rows << " rows, k " << k;
        }
      EXPECT_EQ(c[rows * width], 1.0f) << "wrote past the block";
    }
}

TEST(Partition, EveryRowAndPanelHasOneOwner) {
  for (const long n : {1L, 5L, 64L, 129L})
    for (int threads = 1; threads <= 7; ++threads) {
      long next = 0;
      for (int t = 0; t < threads; ++t) {
        const ft::Range r = ft::part_of(n, t, threads, 4);
        EXPECT_EQ(r.begin, next);
        next = r.end;
        ft::for_row_blocks(r, 16, 6, [&](long row, long rows) {
          EXPECT_GE(row, r.begin);
          EXPECT_LE(row + rows, r.end);
          EXPECT_LE(rows, ft::round_up(16, 6));
        });
      }
      EXPECT_EQ(next, n);
      std::vector<int> owners(n * 48, 0);
      for (int t = 0; t < threads; ++t) {
        const ft::GemmPart part = ft::gemm_part(n, 48, t, threads);
        for (long r = part.rows.begin; r < part.rows.end; ++r)
          for (long p = part.panels.begin; p < part.panels.end; ++p) ++owners[r * 48 + p];
      }
      for (const int count : owners) ASSERT_EQ(count, 1) << n << " rows, " << threads << " threads";
    }
}

TEST(Partition, HeadTasksCoverEveryQueryOnce) {
  for (const long heads : {1L, 3L, 12L})
    for (int threads = 1; threads <= 8; ++threads)
      for (const bool may_split : {false, true}) {
        std::vector<int> seen(heads * 130, 0);
        for (int t = 0; t < threads; ++t) {
          const ft::HeadTasks tasks = ft::head_tasks(heads, 3, may_split, t, threads);
          EXPECT_TRUE(may_split || tasks.splits == 1);
          for (long i = tasks.begin; i < tasks.end; ++i) {
            const ft::Range q = ft::part_of(130, i % tasks.splits, tasks.splits, 64);
            for (long s = q.begin; s < q.end; ++s) ++seen[i / tasks.splits * 130 + s];
          }
        }
        for (const int count : seen) ASSERT_EQ(count, 1);
      }
}

}  // namespace
