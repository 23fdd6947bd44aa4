// How a cost model is fitted: the same in train and evaluate.
#pragma once

#include "cli/options.h"
#include "model/cost_model.h"

namespace fusetune::cli {

/// Where train writes and predict reads when nothing else is said.
inline constexpr const char* kDefaultModel = "cost_model.json";

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
