#include "search/whole_over_sum.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace fusetune::search {
namespace {

/// Penalties on squared weights, in units of one timing's variance over that of the weight. The level is
/// free; the common cost of a border is about as large as a timing is uncertain, one percent; of single
/// borders it is one of kOwnPenalties: from "as large" to "one sixteenth".
constexpr double kLevelPenalty = 1e-6, kCommonPenalty = 1;
constexpr std::array<double, 5> kOwnPenalties = {256, 64, 16, 4, 1};
/// With fewer samples leaving one out says nothing; the middle is taken.
constexpr std::size_t kLeastToChoose = 8;

}  // namespace

/// The normal equations under one penalty: (X'X + penalties) weights = X'y, solved by Cholesky.
class WholeOverSum::System {
 public:
  System(std::span<const Row> rows, std::span<const double> values, double own_penalty)
      : rows_(rows), values_(values) {
    std::array<Row, kColumns> matrix{};
    for (std::size_t i = 0; i < kColumns; ++i)
      matrix[i][i] = i == 0 ? kLevelPenalty : i == 1 ? kCommonPenalty : own_penalty;
    for (const Row& row : rows)
      for (std::size_t i = 0; i < kColumns; ++i)
        for (std::size_t j = 0; j <= i; ++j) matrix[i][j] += row[i] * row[j];
    factorize(matrix);
    Row right{};
    for (std::size_t r = 0; r < rows.size(); ++r)
      for (std::size_t i = 0; i < kColumns; ++i) right[i] += rows[r][i] * values[r];
    weights_ = backward(forward(right));
  }

  const Row& weights() const { return weights_; }

  /// Mean square of the errors in predicting each value from all others.
  double left_out_error() const {
    double sum = 0;
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      const Row half = forward(rows_[r]);
      const double leverage = std::inner_product(half.begin(), half.end(), half.begin(), 0.0);
      const double fitted = std::inner_product(rows_[r].begin(), rows_[r].end(), weights_.begin(), 0.0);
      const double error = (values_[r] - fitted) / (1 - leverage);
      sum += error * error;
    }
    return sum / static_cast<double>(rows_.size());
  }

 private:
  void factorize(const std::array<Row, kColumns>& matrix) {
    for (std::size_t i = 0; i < kColumns; ++i)
      for (std::size_t j = 0; j <= i; ++j) {
        double rest = matrix[i][j];
        for (std::size_t k = 0; k < j; ++k) rest -= lower_[i][k] * lower_[j][k];
        lower_[i][j] = i == j ? std::sqrt(rest) : rest / lower_[j][j];
      }
  }
  Row forward(Row right) const {
    for (std::size_t i = 0; i < kColumns; ++i) {
      for (std::size_t k = 0; k < i; ++k) right[i] -= lower_[i][k] * right[k];
      right[i] /= lower_[i][i];
    }
    return right;
  }
  Row backward(Row right) const {
    for (std::size_t i = kColumns; i-- > 0;) {
      for (std::size_t k = i + 1; k < kColumns; ++k) right[i] -= lower_[k][i] * right[k];
      right[i] /= lower_[i][i];
    }
    return right;
  }

  std::span<const Row> rows_;
  std::span<const double> values_;
  std::array<Row, kColumns> lower_{};
  Row weights_{};
};

WholeOverSum::Row WholeOverSum::row_of(const plan::FusionPlan& plan) {
  Row row{1, static_cast<double>(plan.kernel_count() - 1)};
  for (std::size_t border = 0; border < kColumns - 3; ++border)
    row[2 + border] = plan.borders() >> border & 1;
  row[kColumns - 1] = plan.hand_written() ? 1 : 0;
  return row;
}

void WholeOverSum::fit(std::span<const Sample> samples) {
  weights_ = {};
  if (samples.empty()) return;
  std::vector<Row> rows;
  std::vector<double> values;
  for (const Sample& sample : samples) {
    rows.push_back(row_of(sample.plan));
    values.push_back(std::log(sample.ratio));
  }
  if (samples.size() < kLeastToChoose) {
    weights_ = System(rows, values, kOwnPenalties[kOwnPenalties.size() / 2]).weights();
    return;
  }
  double least_error = std::numeric_limits<double>::infinity();
  for (const double penalty : kOwnPenalties) {
    const System system(rows, values, penalty);
    const double error = system.left_out_error();
    if (error >= least_error) continue;
    least_error = error;
    weights_ = system.weights();
  }
}

double WholeOverSum::predict(const plan::FusionPlan& plan) const {
  const Row row = row_of(plan);
  return std::exp(std::inner_product(row.begin(), row.end(), weights_.begin(), 0.0));
}

}  // namespace fusetune::search
