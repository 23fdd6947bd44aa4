#include "search/plan_model.h"

#include <utility>

#include "base/error.h"

namespace fusetune::search {

FittedPlanModel::FittedPlanModel(const block::Problem& problem, const model::TrainOptions& options,
                                 std::optional<model::CostModel> initial)
    : facts_(problem), options_(options), model_(std::move(initial)) {
  if (model_ && model_->info().schema == model::Schema::segment)
    throw base::UsageError("this strategy times whole plans, and the cost model knows single segments");
}

std::string FittedPlanModel::fit(std::span<const TimedPlan> plans) {
  model::TrainingSet set(model::Schema::plan);
  const std::size_t group = set.group(facts_.problem().key());
  for (const TimedPlan& one : plans)
    set.add(one.plan, facts_, {.time = one.time_us, .group = group, .uniform = one.uniform});
  model::Trained trained = model::CostModel::train(set, options_);
  if (trained.model) model_ = std::move(trained.model);
  return trained.missing;
}

std::vector<PlanPrediction> FittedPlanModel::predict(std::span<const plan::FusionPlan> plans) const {
  model::FeatureTable table(model_->info().schema);
  for (const plan::FusionPlan& plan : plans) {
    if (table.schema() == model::Schema::plan) {
      table.add(plan, facts_);
    } else {
      table.add(plan);
    }
  }
  std::vector<PlanPrediction> predictions;
  for (const model::Prediction& one : model_->predict(table)) predictions.push_back({one.time, one.high});
  return predictions;
}

}  // namespace fusetune::search
