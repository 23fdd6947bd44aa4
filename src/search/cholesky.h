// The Cholesky factor of a covariance, and what Gaussian processes ask of it. Matrices are [n,n], row by row;
// of symmetric ones and of factors the lower triangle counts, the rest is neither read nor written.
#pragma once

#include <cmath>
#include <cstddef>
#include <numeric>
#include <vector>

namespace fusetune::search {

/// Puts the factor L in the place of a positive definite matrix L L'. Returns the logarithm of L's
/// determinant. O(n^3).
inline double factor_in_place(std::vector<double>& matrix, std::size_t n) {
  double log_determinant = 0;
  for (std::size_t i = 0; i < n; ++i) {
    double* const row = &matrix[i * n];
    for (std::size_t j = 0; j <= i; ++j) {
      const double* const other = &matrix[j * n];
      const double rest = row[j] - std::inner_product(row, row + j, other, 0.0);
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
    x[i] = (x[i] - std::inner_product(row, row + i, x.begin(), 0.0)) / row[i];
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

inline double sum_of_squares(const std::vector<double>& values) {
  return std::inner_product(values.begin(), values.end(), values.begin(), 0.0);
}

}  // namespace fusetune::search
