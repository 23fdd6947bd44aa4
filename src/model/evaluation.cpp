#include "model/evaluation.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "base/error.h"
#include "model/metrics.h"
#include "model/plans_by_sums.h"

namespace fusetune::model {
namespace {

constexpr double kNotKnown = std::numeric_limits<double>::quiet_NaN();
/// Fewer pairs than this say nothing about noise.
constexpr std::size_t kFewestPairs = 10;

using Fold = std::vector<std::size_t>;  // rows held out together

/// Fisher-Yates by hand: std::shuffle differs between standard libraries, and the same seed must hold out the
/// same rows.
std::vector<std::size_t> shuffled(std::size_t count, std::uint64_t seed) {
  std::vector<std::size_t> order(count);
  for (std::size_t i = 0; i < count; ++i) order[i] = i;
  std::mt19937_64 random(seed);
  for (std::size_t i = count; i > 1; --i) std::swap(order[i - 1], order[random() % i]);
  return order;
}

std::vector<Fold> folds_of(const TrainingSet& set, const TrainOptions& options, int folds) {
  const std::vector<std::size_t> order = shuffled(set.size(), options.seed);
  std::vector<Fold> result(static_cast<std::size_t>(folds));
  for (std::size_t i = 0; i < order.size(); ++i) result[i % result.size()].push_back(order[i]);
  return result;
}

/// Predictions of rows by models that had not seen them.
struct HeldOut {
  std::vector<std::size_t> rows;
  std::vector<Prediction> predictions;  // one a row
};

TrainingSet without(const TrainingSet& set, const Fold& fold) {
  std::vector<bool> held_out(set.size(), false);
  for (const std::size_t row : fold) held_out[row] = true;
  std::vector<std::size_t> others;
  for (std::size_t row = 0; row < set.size(); ++row)
    if (!held_out[row]) others.push_back(row);
  return set.subset(others);
}

/// Empty, or why the fold could not be predicted.
std::string predict_fold(const TrainingSet& set, const Fold& fold, const TrainOptions& options,
                         HeldOut& out) {
  const Trained trained = CostModel::train(without(set, fold), options);
  if (!trained.model) return trained.missing;
  const std::vector<Prediction> predictions = trained.model->predict(set.subset(fold).features());
  out.rows.insert(out.rows.end(), fold.begin(), fold.end());
  out.predictions.insert(out.predictions.end(), predictions.begin(), predictions.end());
  return {};
}

/// The rows of one group, side by side.
struct Columns {
  std::vector<double> predicted, measured, work, probability, first_half, second_half;
  std::vector<int> variants;
  std::vector<bool> predicted_high, high;

  void add(const Example& example, double needed, bool is_high, const Prediction& prediction) {
    predicted.push_back(prediction.time);
    measured.push_back(example.time);
    work.push_back(needed);
    variants.push_back(example.variant);
    probability.push_back(prediction.probability);
    predicted_high.push_back(prediction.high);
    high.push_back(is_high);
    if (example.first_half <= 0 || example.second_half <= 0) return;
    first_half.push_back(example.first_half);
    second_half.push_back(example.second_half);
  }
};

/// What the predictions of kernels say of plans; of whole plans nothing.
void score_sums(GroupScore& result, const Columns& columns) {
  const PlansBySums sums = score_plans(columns.variants, columns.predicted, columns.measured, kTopPlans);
  result.path_regret = sums.path_regret;
  result.plan_spearman = sums.spearman;
  result.plan_noise_ceiling = kNotKnown;
  if (std::isnan(sums.path_regret)) return;
  result.top_holds_best = sums.top_holds_best;
  if (columns.first_half.size() == columns.variants.size())
    result.plan_noise_ceiling =
        score_plans(columns.variants, columns.first_half, columns.second_half, kTopPlans).spearman;
}

GroupScore score(const std::string& group, const Columns& columns) {
  const ClassCounts counts = count_classes(columns.predicted_high, columns.high);
  GroupScore result;
  result.group = group;
  result.rows = columns.measured.size();
  result.spearman = spearman(columns.predicted, columns.measured);
  result.work_spearman = spearman(columns.work, columns.measured);
  result.measured_twice = columns.first_half.size();
  result.noise_ceiling =
      result.measured_twice < kFewestPairs ? kNotKnown : spearman(columns.first_half, columns.second_half);
  result.top_holds_best = top_holds_best(columns.predicted, columns.measured, kTopPlans);
  result.regret = regret(columns.predicted_high, columns.measured);
  result.kept =
      static_cast<double>(counts.true_positive + counts.false_positive) / static_cast<double>(result.rows);
  result.precision = counts.precision();
  result.recall = counts.recall();
  result.auc = area_under_curve(columns.probability, columns.high);
  score_sums(result, columns);
  return result;
}

Evaluation score_groups(const TrainingSet& set, const HeldOut& held_out, double high_fraction) {
  const Labels labels = make_labels(set, high_fraction);
  std::vector<Columns> columns(set.groups().size());
  for (std::size_t i = 0; i < held_out.rows.size(); ++i) {
    const std::size_t row = held_out.rows[i];
    const Example& example = set.examples()[row];
    columns[example.group].add(example, set.features().work(row), labels.high[row], held_out.predictions[i]);
  }
  Evaluation evaluation;
  for (std::size_t group = 0; group < columns.size(); ++group)
    if (!columns[group].measured.empty())
      evaluation.groups.push_back(score(set.groups()[group], columns[group]));
  return evaluation;
}

Evaluation evaluate(const TrainingSet& set, const std::vector<Fold>& folds, const TrainOptions& options) {
  HeldOut held_out;
  for (const Fold& fold : folds) {
    if (fold.empty()) continue;
    const std::string missing = predict_fold(set, fold, options, held_out);
    if (!missing.empty()) return {{}, fmt::format("without the {} rows held out: {}", fold.size(), missing)};
  }
  return score_groups(set, held_out, options.high_fraction);
}

}  // namespace

std::vector<double> held_out_probabilities(const TrainingSet& set, const TrainOptions& options, int folds) {
  std::vector<double> probabilities(set.size());
  for (const Fold& fold : folds_of(set, options, folds)) {
    if (fold.empty()) return {};
    const TrainedClassifier trained = Classifier::train(without(set, fold), options);
    if (!trained.classifier) return {};
    const std::vector<double> of_fold = trained.classifier->probabilities(set.subset(fold).features());
    for (std::size_t i = 0; i < fold.size(); ++i) probabilities[fold[i]] = of_fold[i];
  }
  return probabilities;
}

Evaluation cross_validate_plans(const TrainingSet& set, const TrainOptions& options, int folds, int fitted) {
  if (folds < 2 || fitted < 1 || fitted > folds)
    throw base::InternalError(fmt::format("{} of {} folds cannot be held out", fitted, folds));
  std::vector<Fold> held_out = folds_of(set, options, folds);
  held_out.resize(static_cast<std::size_t>(fitted));
  return evaluate(set, held_out, options);
}

Evaluation cross_validate_parts(const TrainingSet& set, const TrainOptions& options,
                                std::span<const std::string> parts) {
  if (parts.size() != set.groups().size())
    throw base::InternalError(fmt::format("{} parts of {} groups", parts.size(), set.groups().size()));
  std::map<std::string, Fold> by_part;
  for (std::size_t row = 0; row < set.size(); ++row) by_part[parts[set.examples()[row].group]].push_back(row);
  if (by_part.size() < 2) return {{}, "there is only one, none can be held out"};
  std::vector<Fold> held_out;
  for (auto& [part, fold] : by_part) held_out.push_back(std::move(fold));
  return evaluate(set, held_out, options);
}

Evaluation cross_validate_problems(const TrainingSet& set, const TrainOptions& options) {
  Evaluation evaluation = cross_validate_parts(set, options, set.groups());
  if (set.groups().size() < 2) evaluation.missing = "one problem only: none can be held out";
  return evaluation;
}

std::map<std::string, double> summarize(const Evaluation& evaluation) {
  std::map<std::string, double> sums, counts;
  const auto add = [&](const char* name, double value) {
    if (!std::isfinite(value)) return;
    sums[name] += value;
    ++counts[name];
  };
  double rows = 0;
  for (const GroupScore& group : evaluation.groups) {
    rows += static_cast<double>(group.rows);
    add("spearman", group.spearman);
    add("noise_ceiling", group.noise_ceiling);
    add("top_holds_best", group.top_holds_best ? 1 : 0);
    add("regret", group.regret);
    add("path_regret", group.path_regret);
    add("plan_spearman", group.plan_spearman);
    add("plan_noise_ceiling", group.plan_noise_ceiling);
    add("kept", group.kept);
    add("precision", group.precision);
    add("recall", group.recall);
    add("auc", group.auc);
  }
  for (auto& [name, value] : sums) value /= counts[name];
  sums["rows"] = rows;
  return sums;
}

}  // namespace fusetune::model
