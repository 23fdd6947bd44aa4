// How a cost model is fitted: the same in train and evaluate.
#pragma once

#include "cli/options.h"
#include "model/cost_model.h"

namespace fusetune::cli {

/// Where train writes and predict reads when nothing else is said.
inline constexpr const char* kDefaultModel = "cost_model.json";

/// What --cost-model calls the model inside the program.
inline constexpr const char* kShippedModel = "shipped";
/// ... and none at all.
inline constexpr const char* kNoModel = "none";

/// The model in `file`, or the one inside the program. Throws as model::CostModel::load().
model::CostModel load_model(const std::string& file);
/// The model of kernels in `file`, or the one inside the program. Throws the same, and base::UsageError for a
/// model of plans.
model::CostModel load_segment_model(const std::string& file);

class ModelOptions {
 public:
  /// --seed, --rounds, --high-fraction
  void declare(Options& options);
  /// After options.parse(). Throws base::UsageError.
  model::TrainOptions options() const;

 private:
  model::TrainOptions options_;
};

}  // namespace fusetune::cli
