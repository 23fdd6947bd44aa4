#include "model/cost_model.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "model/model_file.h"
#include "model/shipped.h"

namespace fusetune::model {
namespace {

void check(const TrainOptions& options) {
  if (!(options.high_fraction > 0 && options.high_fraction <= 1))
    throw base::UsageError(
        fmt::format("high fraction {}: expected a number above 0 and at most 1", options.high_fraction));
  if (options.rounds < 1)
    throw base::UsageError(fmt::format("{} rounds: expected 1 or more", options.rounds));
}

/// What the rows lack; empty where they suffice.
std::string missing_of(const TrainingSet& set, std::size_t high_rows) {
  const std::string left_out =
      set.left_out() == 0 ? "" : fmt::format(" ({} without a usable time were left out)", set.left_out());
  if (set.size() < kMinimumRows)
    return fmt::format("{} usable rows{}, at least {} are needed", set.size(), left_out, kMinimumRows);
  if (high_rows == 0 || high_rows == set.size())
    return fmt::format(
        "all {} rows{} are {} Performance, rows of both classes are needed: measure plans of "
        "different speed",
        set.size(), left_out, high_rows == 0 ? "Low" : "High");
  return {};
}

Matrix matrix_of(const FeatureTable& table) { return {table.values(), table.rows(), table.columns()}; }

/// For a model of `schema`.
Matrix checked_matrix(const FeatureTable& table, Schema schema) {
  if (table.schema() != schema)
    throw base::UsageError(fmt::format("the cost model predicts from features of schema {}, not {}",
                                       name(schema), name(table.schema())));
  return matrix_of(table);
}

/// What a fit needs to know of its rows, and what they lack: empty where they suffice.
struct Labelled {
  Labels labels;
  std::size_t high_rows;
  std::string missing;
};

Labelled label(const TrainingSet& set, const TrainOptions& options) {
  check(options);
  Labels labels = make_labels(set, options.high_fraction);
  const auto high_rows = static_cast<std::size_t>(std::count(labels.high.begin(), labels.high.end(), true));
  return {std::move(labels), high_rows, missing_of(set, high_rows)};
}

Booster fit_times(const TrainingSet& set, const Labels& labels, const TrainOptions& options) {
  return Booster::train(matrix_of(set.features()), labels.log_times,
                        {Objective::regression, options.rounds, options.seed, options.threads, 1});
}

Booster fit_classes(const TrainingSet& set, const Labels& labels, std::size_t high_rows,
                    const TrainOptions& options) {
  std::vector<float> classes(labels.high.begin(), labels.high.end());
  // High is rare, and a missed one costs a search more than a Low one measured in vain: both classes weigh
  // the same.
  const double weight = static_cast<double>(set.size() - high_rows) / static_cast<double>(high_rows);
  return Booster::train(matrix_of(set.features()), classes,
                        {Objective::classification, options.rounds, options.seed, options.threads, weight});
}

}  // namespace

CostModel::CostModel(ModelInfo info, Booster regressor, Booster classifier)
    : info_(std::move(info)), regressor_(std::move(regressor)), classifier_(std::move(classifier)) {}

Trained CostModel::train(const TrainingSet& set, const TrainOptions& options) {
  auto [labels, high_rows, missing] = label(set, options);
  if (!missing.empty()) return {{}, std::move(missing)};
  ModelInfo info;
  info.schema = set.features().schema();
  info.options = options;
  info.center = labels.center;
  info.training_hash = set.hash();
  info.rows = static_cast<std::int64_t>(set.size());
  info.high_rows = static_cast<std::int64_t>(high_rows);
  info.left_out = set.left_out();
  info.groups_without_uniform = labels.groups_without_uniform;
  info.groups = set.groups();
  info.xgboost = xgboost_version();
  return {CostModel(std::move(info), fit_times(set, labels, options),
                    fit_classes(set, labels, high_rows, options)),
          {}};
}

CostModel CostModel::load(const std::filesystem::path& path) {
  return from_file(path, read_model_file(path));
}

CostModel CostModel::shipped() {
  const std::filesystem::path name = "the model that comes with fusetune";
  const ShippedModel plans = shipped_plans();
  return from_file(name, parse_model_file(name, plans.model, plans.sidecar));
}

CostModel CostModel::shipped_for_segments() {
  const std::filesystem::path name = "the model of segments that comes with fusetune";
  const ShippedModel segments = shipped_segments();
  return from_file(name, parse_model_file(name, segments.model, segments.sidecar));
}

CostModel CostModel::from_file(const std::filesystem::path& path, ModelFile file) {
  const int threads = file.info.options.threads;
  try {
    return {std::move(file.info), Booster::from_json(file.regressor, threads),
            Booster::from_json(file.classifier, threads)};
  } catch (const base::EnvironmentError& error) {
    throw BadModelFile(
        fmt::format("'{}' is no cost model for this program: {}", path.string(), error.what()));
  }
}

void CostModel::save(const std::filesystem::path& path) const {
  write_model_file(path, {info_, regressor_.to_json(), classifier_.to_json()});
}

std::vector<Prediction> CostModel::predict(const FeatureTable& table) const {
  const Matrix matrix = checked_matrix(table, info_.schema);
  const std::vector<float> logs = regressor_.predict(matrix);
  const std::vector<float> probabilities = classifier_.predict(matrix);
  std::vector<Prediction> result;
  result.reserve(table.rows());
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const double probability = static_cast<double>(probabilities[row]);
    const double time = table.work(row) * std::exp(info_.center + static_cast<double>(logs[row]));
    result.push_back({time, probability, probability >= 0.5});
  }
  return result;
}

std::vector<Prediction> CostModel::predict(const block::Problem& problem,
                                           std::span<const plan::FusionPlan> plans) const {
  return predict(table_of(info_.schema, problem, plans));
}

std::vector<Prediction> CostModel::predict(std::span<const plan::FusionPlan> plans) const {
  FeatureTable table(Schema::plan_bits);
  for (const plan::FusionPlan& plan : plans) table.add(plan);
  return predict(table);
}

std::vector<Explanation> CostModel::explain(const FeatureTable& table) const {
  const std::vector<float> values = regressor_.contributions(checked_matrix(table, info_.schema));
  const std::size_t width = table.columns() + 1;
  std::vector<Explanation> result;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const auto of_row = std::span(values).subspan(row * width, width);
    result.push_back({info_.center + static_cast<double>(of_row.back()), {of_row.begin(), of_row.end() - 1}});
  }
  return result;
}

TrainedClassifier Classifier::train(const TrainingSet& set, const TrainOptions& options) {
  auto [labels, high_rows, missing] = label(set, options);
  if (!missing.empty()) return {{}, std::move(missing)};
  return {Classifier(set.features().schema(), fit_classes(set, labels, high_rows, options)), {}};
}

std::vector<double> Classifier::probabilities(const FeatureTable& table) const {
  const std::vector<float> values = booster_.predict(checked_matrix(table, schema_));
  return {values.begin(), values.end()};
}

FeatureTable table_of(Schema schema, const block::Problem& problem, std::span<const plan::FusionPlan> plans) {
  FeatureTable table(schema);
  if (schema == Schema::plan_bits) {
    for (const plan::FusionPlan& plan : plans) table.add(plan);
    return table;
  }
  const ProblemFacts facts(problem);
  for (const plan::FusionPlan& plan : plans) table.add(plan, facts);
  return table;
}

}  // namespace fusetune::model
