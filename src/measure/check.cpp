#include "measure/check.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <ranges>

#include "base/error.h"
#include "base/number.h"

namespace fusetune::measure {
namespace {

using block::Tensor;

/// A row's scale is at least this share of the tensor's root mean square. It matters for rows of one or few
/// elements only (head size 1, short sequences): there cancellation can make the largest magnitude
/// arbitrarily small, and an error of one rounding relative to it arbitrarily large.
constexpr double kScaleFloor = 0.05;

/// One row (last dimension) of a tensor and how it is to be compared.
struct Row {
  std::int64_t offset;  // of its first element
  std::int64_t columns;
  std::int64_t entry;  // batch entry
  std::int64_t query;  // position in the sequence
};

/// Calls `visit` for every row that is compared. Every tensor's shape ends in [..., S, columns].
template <typename Visit>
void for_each_compared_row(const block::Problem& problem, const block::Mask& mask, Tensor tensor,
                           Visit visit) {
  const std::vector<std::int64_t> shape = problem.shape(tensor);
  const std::int64_t columns = shape.back();
  const std::int64_t rows = problem.elements(tensor) / columns;
  const std::int64_t rows_per_entry = rows / problem.batch;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t entry = row / rows_per_entry;
    const std::int64_t query = row % problem.seq;
    const bool padded = query >= mask.length(entry);
    if (!padded || tensor == Tensor::output) visit(Row{row * columns, columns, entry, query});
  }
}

/// False for the elements of a compared row that are not.
class ComparedColumns {
 public:
  ComparedColumns(const block::Mask& mask, Tensor tensor)
      : mask_(mask), keys_matter_(tensor == Tensor::scores) {}
  bool operator()(const Row& row, std::int64_t column) const {
    if (!keys_matter_) return true;
    const std::int64_t entry = mask_.entries() == 1 ? 0 : row.entry;
    return mask_.key_used(entry)[static_cast<std::size_t>(column)] != 0;
  }

 private:
  const block::Mask& mask_;
  bool keys_matter_;
};

std::vector<std::int64_t> coordinates(std::int64_t index, std::vector<std::int64_t> shape) {
  for (std::int64_t& dimension : std::views::reverse(shape)) {
    const std::int64_t size = dimension;
    dimension = index % size;
    index /= size;
  }
  return shape;
}

/// Root mean square of the finite elements.
double root_mean_square(std::span<const double> values) {
  double sum = 0;
  std::int64_t count = 0;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    sum += value * value;
    ++count;
  }
  return count == 0 ? 0 : std::sqrt(sum / static_cast<double>(count));
}

/// Running comparison of one tensor.
class ErrorScan {
 public:
  ErrorScan(const block::Problem& problem, const block::Mask& mask, Tensor tensor, std::span<const float> got,
            const Oracle& oracle)
      : problem_(problem),
        tensor_(tensor),
        got_(got),
        want_(oracle(tensor)),
        compared_(mask, tensor),
        // Few scores of a row may be visible and those be small; their error is that of the scores.
        scale_(oracle(tensor == Tensor::masked_scores ? Tensor::scores : tensor)),
        floor_(kScaleFloor * root_mean_square(scale_)) {}

  void row(const Row& row) {
    double largest = 0, want_largest = 0;
    for (std::int64_t column = 0; column < row.columns; ++column) {
      const std::size_t at = static_cast<std::size_t>(row.offset + column);
      want_largest = std::max(want_largest, std::abs(want_[at]));
      if (std::isfinite(scale_[at])) largest = std::max(largest, std::abs(scale_[at]));
    }
    const bool exactly_zero = want_largest == 0;
    const double scale = std::max(largest, floor_);
    for (std::int64_t column = 0; column < row.columns; ++column) {
      if (!compared_(row, column)) continue;
      const std::size_t at = static_cast<std::size_t>(row.offset + column);
      element(at, scale, exactly_zero || (tensor_ == Tensor::probs && want_[at] == 0));
    }
  }

  TensorCheck finish(const Bounds& limits) {
    check_.tensor = block::name(tensor_);
    check_.norm_error = error_squares_ > 0 ? std::sqrt(error_squares_ / want_squares_) : 0;
    // Nothing finite to compare: that must not look like no error.
    if (check_.not_finite > 0 && want_squares_ == 0) check_.norm_error = kInfinity;
    check_.worst_error = std::max(worst_, 0.0);
    if (worst_at_ >= 0) {
      const std::size_t at = static_cast<std::size_t>(worst_at_);
      check_.worst_at = coordinates(worst_at_, problem_.shape(tensor_));
      check_.got = got_[at];
      check_.want = want_[at];
    }
    if (wrong_zeros_ > 0)
      check_.note = std::to_string(wrong_zeros_) + " elements that must be exactly zero are not";
    check_.passed = check_.not_finite == 0 && wrong_zeros_ == 0 && check_.norm_error <= limits.norm &&
                    check_.worst_error <= limits.worst;
    return check_;
  }

 private:
  void element(std::size_t at, double scale, bool exactly_zero) {
    const double got = got_[at], want = want_[at];
    if (!std::isfinite(got) || !std::isfinite(want)) {
      if (got == want) return;
      ++check_.not_finite;
      note_worst(at, kInfinity);
      return;
    }
    const double error = std::abs(got - want);
    error_squares_ += error * error;
    want_squares_ += want * want;
    if (exactly_zero && got != 0) {
      ++wrong_zeros_;
      note_worst(at, kInfinity);
      return;
    }
    note_worst(at, error == 0 ? 0 : error / scale);
  }

  void note_worst(std::size_t at, double error) {
    if (error <= worst_) return;
    worst_ = error;
    worst_at_ = static_cast<std::int64_t>(at);
  }

  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  const block::Problem& problem_;
  Tensor tensor_;
  std::span<const float> got_;
  std::span<const double> want_;
  ComparedColumns compared_;
  std::span<const double> scale_;
  double floor_;
  TensorCheck check_;
  double error_squares_ = 0, want_squares_ = 0;
  double worst_ = -1;
  std::int64_t worst_at_ = -1;
  std::int64_t wrong_zeros_ = 0;
};

void require_length(const block::Problem& problem, Tensor tensor, std::size_t length) {
  if (static_cast<std::int64_t>(length) == problem.elements(tensor)) return;
  throw base::InternalError("comparing " + std::string(block::name(tensor)) + ": " + std::to_string(length) +
                            " elements, not " + std::to_string(problem.elements(tensor)));
}

}  // namespace

Bounds bounds(block::Dtype dtype) {
  switch (dtype) {
    case block::Dtype::f32:
      return {1e-5, 2e-5};
    case block::Dtype::f16:
      return {1.5e-3, 4e-3};
    case block::Dtype::bf16:
      return {1e-2, 2.5e-2};
  }
  throw base::InternalError("no accuracy bounds for this dtype");
}

TensorCheck compare_with_oracle(const block::Problem& problem, const block::Mask& mask, Tensor tensor,
                                std::span<const float> got, const Oracle& oracle) {
  require_length(problem, tensor, got.size());
  require_length(problem, tensor, oracle(tensor).size());
  ErrorScan comparison(problem, mask, tensor, got, oracle);
  for_each_compared_row(problem, mask, tensor, [&](const Row& row) { comparison.row(row); });
  return comparison.finish(bounds(problem.dtype));
}

bool same_values(const block::Problem& problem, const block::Mask& mask, Tensor tensor,
                 std::span<const float> first, std::span<const float> second) {
  require_length(problem, tensor, first.size());
  require_length(problem, tensor, second.size());
  const ComparedColumns compared(mask, tensor);
  bool same = true;
  for_each_compared_row(problem, mask, tensor, [&](const Row& row) {
    for (std::int64_t column = 0; column < row.columns && same; ++column) {
      const std::size_t at = static_cast<std::size_t>(row.offset + column);
      same = !compared(row, column) ||
             std::bit_cast<std::uint32_t>(first[at]) == std::bit_cast<std::uint32_t>(second[at]);
    }
  });
  return same;
}

std::string describe(const TensorCheck& check, const Bounds& limits) {
  std::string text = check.tensor;
  if (!check.worst_at.empty()) {
    text += " at [";
    for (std::size_t i = 0; i < check.worst_at.size(); ++i) {
      if (i > 0) text += ',';
      text += std::to_string(check.worst_at[i]);
    }
    text += "]: got " + base::format_shortest(check.got) + ", want " + base::format_shortest(check.want);
  }
  text += "; norm error " + base::format_shortest(check.norm_error) + " (bound " +
          base::format_shortest(limits.norm) + "), worst error " + base::format_shortest(check.worst_error) +
          " (bound " + base::format_shortest(limits.worst) + ")";
  if (check.not_finite > 0)
    text += "; " + std::to_string(check.not_finite) + " elements NaN, infinite or not written";
  if (!check.note.empty()) text += "; " + check.note;
  return text;
}

}  // namespace fusetune::measure
