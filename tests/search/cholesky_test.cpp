// Sums and factors of the Gaussian processes, against what they are by definition.
#include "search/cholesky.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace fusetune::search {
namespace {

// Whole numbers, so that no order of adding them up rounds. Lengths around the eight sums.
TEST(Cholesky, DotIsTheSumOfProductsOfEveryLength) {
  std::vector<double> a, b;
  double sum = 0;
  for (int n = 0; n <= 35; ++n) {
    EXPECT_EQ(dot(a, b), sum) << n;
    a.push_back(n + 1);
    b.push_back(2 * n - 7);
    sum += a.back() * b.back();
  }
}

TEST(Cholesky, FactorsAndSolves) {
  constexpr std::size_t kSize = 19;
  std::vector<double> matrix(kSize * kSize, -1e9);  // above the diagonal nobody looks
  for (std::size_t i = 0; i < kSize; ++i)
    for (std::size_t j = 0; j <= i; ++j)
      matrix[i * kSize + j] = std::exp(-0.3 * static_cast<double>(i - j)) + (i == j ? 0.5 : 0);
  std::vector<double> factor = matrix;
  const double log_determinant = factor_in_place(factor, kSize);
  double of_diagonal = 0;
  for (std::size_t i = 0; i < kSize; ++i) {
    of_diagonal += std::log(factor[i * kSize + i]);
    for (std::size_t j = 0; j <= i; ++j) {
      double product = 0;
      for (std::size_t k = 0; k <= j; ++k) product += factor[i * kSize + k] * factor[j * kSize + k];
      EXPECT_NEAR(product, matrix[i * kSize + j], 1e-14) << i << "," << j;
    }
  }
  EXPECT_NEAR(log_determinant, of_diagonal, 1e-12);

  std::vector<double> wanted, x(kSize);
  for (std::size_t i = 0; i < kSize; ++i) wanted.push_back(static_cast<double>(i) - 5);
  for (std::size_t i = 0; i < kSize; ++i)
    for (std::size_t j = 0; j < kSize; ++j)
      x[i] += matrix[std::max(i, j) * kSize + std::min(i, j)] * wanted[j];
  solve_lower(factor, x);
  solve_upper(factor, x);
  for (std::size_t i = 0; i < kSize; ++i) EXPECT_NEAR(x[i], wanted[i], 1e-12) << i;
}

}  // namespace
}  // namespace fusetune::search
