// The cost model as plan strategies see it: fitted to the plans of one problem as they are timed.
#pragma once

#include <optional>

#include "model/cost_model.h"
#include "model/evaluation.h"
#include "search/plan_strategy.h"

namespace fusetune::search {

class FittedPlanModel : public PlanModel {
 public:
  /// Without a problem plans are known by their bits alone. Without `initial` it begins without a model.
  /// Throws base::UsageError for an initial model that does not know plans, or needs a problem.
  FittedPlanModel(const std::optional<block::Problem>& problem, const model::TrainOptions& options,
                  std::optional<model::CostModel> initial = std::nullopt);

  std::string fit(std::span<const TimedPlan> plans) override;
  bool ready() const override { return model_.has_value(); }
  std::vector<PlanPrediction> predict(std::span<const plan::FusionPlan> plans) const override;
  /// How good it is: of the plans last learned from, each fifth is predicted from the others. No group: too
  /// few of them.
  model::Evaluation evaluate() const { return model::cross_validate_plans(set_, options_); }

 private:
  model::FeatureTable table_of(model::Schema schema, std::span<const plan::FusionPlan> plans) const;

  std::optional<model::ProblemFacts> facts_;
  model::TrainOptions options_;
  std::optional<model::CostModel> model_;
  model::TrainingSet set_;  // of the last fit
};

}  // namespace fusetune::search
