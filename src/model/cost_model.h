// CostModel: predicts a candidate's time and whether it is worth measuring, from what was measured before.
//
// Reading guide: features.h says what it knows of a candidate, training_set.h what it is told, booster.h is
// XGBoost, model_file.h the two files it lives in, evaluation.h says how good it is.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/booster.h"
#include "model/training_set.h"

namespace fusetune::model {

/// Fewer usable rows than this fit no model.
inline constexpr std::size_t kMinimumRows = 10;

struct TrainOptions {
  int rounds = 200;
  std::uint64_t seed = 0;
  int threads = 1;             // see BoosterOptions::threads
  double high_fraction = 0.1;  // in (0, 1]
};

/// What a model was made from: its sidecar.
struct ModelInfo {
  Schema schema = Schema::plan_bits;
  TrainOptions options;
  double center = 0;          // Labels::center
  std::string training_hash;  // TrainingSet::hash()
  std::int64_t rows = 0, high_rows = 0, left_out = 0;
  std::int64_t groups_without_uniform = 0;
  std::vector<std::string> groups;  // the set's: problem keys, or the name of a file
  std::string xgboost;              // version it was fitted with
  // The caller's, for the reader:
  std::string unit;                       // of its times; empty: that of the training file
  std::string environment;                // where the times were measured
  std::string program;                    // "fusetune 0.1.0"
  std::map<std::string, double> metrics;  // on rows that were held out
};

struct Prediction {
  double time = 0;         // in the training data's unit
  double probability = 0;  // of High, as if both classes were equally common
  bool high = false;       // probability >= 0.5
};

/// Why a prediction is what it is: time = work x exp(shared + the sum of the features').
struct Explanation {
  double shared = 0;
  std::vector<double> features;  // in the schema's order
};

struct Trained;
struct ModelFile;

class CostModel {
 public:
  /// A regressor on log time and a classifier of High (1) and Low (0). Too few rows, or one class only, is no
  /// exception: a search that has measured little goes on without a model. Throws base::UsageError for
  /// options out of range.
  static Trained train(const TrainingSet& set, const TrainOptions& options);

  /// Throws BadModelFile (model_file.h) naming the file and why, and base::EnvironmentError where it cannot
  /// be read.
  static CostModel load(const std::filesystem::path& path);
  /// The one inside the program, models/plans.json: schema plan, fitted to data/recorded.
  static CostModel shipped();
  /// The other one, models/segments.json: schema segment, fitted to the kernels in data/recorded.
  static CostModel shipped_for_segments();
  /// Writes the model and its sidecar, each whole or not at all. Throws base::EnvironmentError.
  void save(const std::filesystem::path& path) const;

  /// One a row, in order. Throws base::UsageError for a table of another schema than the model's.
  std::vector<Prediction> predict(const FeatureTable& table) const;
  /// Plans of one problem; schemas plan and plan_bits, the latter without looking at the problem.
  std::vector<Prediction> predict(const block::Problem& problem,
                                  std::span<const plan::FusionPlan> plans) const;
  /// Plans where no problem is named; schema plan_bits.
  std::vector<Prediction> predict(std::span<const plan::FusionPlan> plans) const;
  /// What drove the predicted times, one a row.
  std::vector<Explanation> explain(const FeatureTable& table) const;

  const ModelInfo& info() const { return info_; }
  ModelInfo& info() { return info_; }

 private:
  CostModel(ModelInfo info, Booster regressor, Booster classifier);
  static CostModel from_file(const std::filesystem::path& path, ModelFile file);

  ModelInfo info_;
  Booster regressor_, classifier_;
};

/// A model, or what is missing for one.
struct Trained {
  std::optional<CostModel> model;
  std::string missing;  // "9 usable rows, at least 10 are needed"; empty where there is a model
};

struct TrainedClassifier;

/// The classifier that CostModel::train() would fit, without the regressor: half the work.
class Classifier {
 public:
  /// As CostModel::train().
  static TrainedClassifier train(const TrainingSet& set, const TrainOptions& options);
  /// Of High, one a row, as Prediction has it. Throws base::UsageError for a table of another schema.
  std::vector<double> probabilities(const FeatureTable& table) const;

 private:
  Classifier(Schema schema, Booster booster) : schema_(schema), booster_(std::move(booster)) {}

  Schema schema_;
  Booster booster_;
};

struct TrainedClassifier {
  std::optional<Classifier> classifier;
  std::string missing;  // as of Trained
};

/// A table of plans as `schema` (plan or plan_bits) describes them.
FeatureTable table_of(Schema schema, const block::Problem& problem, std::span<const plan::FusionPlan> plans);

}  // namespace fusetune::model
