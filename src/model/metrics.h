// How good predictions are, against what was measured.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace fusetune::model {

/// Ranks 1..n; equal values share the mean of their places.
std::vector<double> ranks(std::span<const double> values);

/// Spearman's rank correlation, -1..1: Pearson's correlation of the ranks. NaN for fewer than two pairs or
/// where one side is constant.
double spearman(std::span<const double> a, std::span<const double> b);

/// Area under the ROC curve: the probability that a row of class 1 scores above one of class 0, ties counting
/// half. NaN where a class is absent.
double area_under_curve(std::span<const double> scores, const std::vector<bool>& positive);

struct ClassCounts {
  std::size_t true_positive = 0, false_positive = 0, false_negative = 0, true_negative = 0;
  /// Share of those predicted positive that are; NaN where none was predicted.
  double precision() const;
  /// Share of the positive that were predicted so; NaN where there is none.
  double recall() const;
};
ClassCounts count_classes(const std::vector<bool>& predicted, const std::vector<bool>& positive);

/// True when one of the `k` rows with the smallest prediction is tied with the fastest: at most
/// base::kTieBand slower. Of equal predictions the earlier row comes first.
bool top_holds_best(std::span<const double> predicted, std::span<const double> measured, std::size_t k);

/// What a search loses that measures only the `kept` rows: fastest kept / fastest - 1. NaN where none is
/// kept.
double regret(const std::vector<bool>& kept, std::span<const double> measured);

}  // namespace fusetune::model
