#include "model/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "base/tie_band.h"

namespace fusetune::model {
namespace {

constexpr double kNotKnown = std::numeric_limits<double>::quiet_NaN();

void require_same(std::size_t a, std::size_t b) {
  if (a != b) throw base::InternalError("a metric needs two lists of the same length");
}

double mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double pearson(std::span<const double> a, std::span<const double> b) {
  const double mean_a = mean(a), mean_b = mean(b);
  double together = 0, spread_a = 0, spread_b = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    together += (a[i] - mean_a) * (b[i] - mean_b);
    spread_a += (a[i] - mean_a) * (a[i] - mean_a);
    spread_b += (b[i] - mean_b) * (b[i] - mean_b);
  }
  return spread_a > 0 && spread_b > 0 ? together / std::sqrt(spread_a * spread_b) : kNotKnown;
}

double share(std::size_t part, std::size_t other) {
  return part + other == 0 ? kNotKnown : static_cast<double>(part) / static_cast<double>(part + other);
}

}  // namespace

std::vector<double> ranks(std::span<const double> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> result(values.size());
  for (std::size_t first = 0; first < order.size();) {
    std::size_t end = first;
    while (end < order.size() && values[order[end]] == values[order[first]]) ++end;
    const double shared = (static_cast<double>(first + 1) + static_cast<double>(end)) / 2;
    for (; first < end; ++first) result[order[first]] = shared;
  }
  return result;
}

double spearman(std::span<const double> a, std::span<const double> b) {
  require_same(a.size(), b.size());
  if (a.size() < 2) return kNotKnown;
  return pearson(ranks(a), ranks(b));
}

double area_under_curve(std::span<const double> scores, const std::vector<bool>& positive) {
  require_same(scores.size(), positive.size());
  const std::vector<double> places = ranks(scores);
  double sum = 0, count = 0;
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (!positive[i]) continue;
    sum += places[i];
    ++count;
  }
  const double others = static_cast<double>(scores.size()) - count;
  if (count == 0 || others == 0) return kNotKnown;
  // Mann and Whitney: the ranks of the positive, less those they would have among themselves.
  return (sum - count * (count + 1) / 2) / (count * others);
}

double ClassCounts::precision() const { return share(true_positive, false_positive); }
double ClassCounts::recall() const { return share(true_positive, false_negative); }

ClassCounts count_classes(const std::vector<bool>& predicted, const std::vector<bool>& positive) {
  require_same(predicted.size(), positive.size());
  ClassCounts counts;
  for (std::size_t i = 0; i < predicted.size(); ++i) {
    if (predicted[i])
      ++(positive[i] ? counts.true_positive : counts.false_positive);
    else
      ++(positive[i] ? counts.false_negative : counts.true_negative);
  }
  return counts;
}

bool top_holds_best(std::span<const double> predicted, std::span<const double> measured, std::size_t k) {
  require_same(predicted.size(), measured.size());
  if (measured.empty()) return false;
  std::vector<std::size_t> order(predicted.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return predicted[a] < predicted[b]; });
  order.resize(std::min(k, order.size()));
  const double limit = *std::min_element(measured.begin(), measured.end()) * (1 + base::kTieBand);
  return std::any_of(order.begin(), order.end(), [&](std::size_t row) { return measured[row] <= limit; });
}

double regret(const std::vector<bool>& kept, std::span<const double> measured) {
  require_same(kept.size(), measured.size());
  double best = std::numeric_limits<double>::infinity(), best_kept = best;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    best = std::min(best, measured[i]);
    if (kept[i]) best_kept = std::min(best_kept, measured[i]);
  }
  return std::isfinite(best_kept) ? best_kept / best - 1 : kNotKnown;
}

}  // namespace fusetune::model
