// The Cholesky factor of a covariance, and what Gaussian processes ask of it. Matrices are [n,n], row by row;
// of symmetric ones and of factors the lower triangle counts, the rest is neither read nor written.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <vector>

namespace fusetune::search {

/// Sum of products. In eight sums that do not wait for each other: one alone, as std::inner_product() has it,
/// took a fifth of a search that found all its times in the database.
inline double dot(const double* a, const double* b, std::size_t n) {
  constexpr std::size_t kSums = 8;
  std::array<double, kSums> sums{};
  std::size_t i = 0;
  for (; i + kSums <= n; i += kSums)
    for (std::size_t k = 0; k < kSums; ++k) sums[k] += a[i + k] * b[i + k];
  for (; i < n; ++i) sums[0] += a[i] * b[i];
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}
/// Of equally long ones.
inline double dot(const std::vector<double>& a, const std::vector<double>& b) {
  return dot(a.data(), b.data(), a.size());
}

/// Puts the factor L in the place of a positive definite matrix L L'. Returns the logarithm of L's
/// determinant. O(n^3).
inline double factor_in_place(std::vector<double>& matrix, std::size_t n) {
  double log_determinant = 0;
  for (std::size_t i = 0; i < n; ++i) {
    double* const row = &matrix[i * n];
    for (std::size_t j = 0; j <= i; ++j) {
      const double* const other = &matrix[j * n];
      const double rest = row[j] - dot(row, other, j);
      row[j] = i == j ? std::sqrt(rest) : rest / other[j];
    }
    log_determinant += std::log(row[i]);
  }
  return log_determinant;
}

/// Solves L x = x in place.
inline void solve_lower(const std::vector<double>& factor, std::vector<double>& x) {
  const std::size_t n = x.size();
  for (std::size_t i = 0; i < n; ++i) {
    const double* const row = &factor[i * n];
    x[i] = (x[i] - dot(row, x.data(), i)) / row[i];
  }
}

/// Solves L' x = x in place.
inline void solve_upper(const std::vector<double>& factor, std::vector<double>& x) {
  const std::size_t n = x.size();
  for (std::size_t i = n; i-- > 0;) {
    x[i] /= factor[i * n + i];
    for (std::size_t j = 0; j < i; ++j) x[j] -= factor[i * n + j] * x[i];
  }
}

inline double sum_of_squares(const std::vector<double>& values) { return dot(values, values); }

}  // namespace fusetune::search
