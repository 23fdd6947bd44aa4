#include "search/plan_model.h"

#include <utility>

#include "base/error.h"

namespace fusetune::search {

FittedPlanModel::FittedPlanModel(const std::optional<block::Problem>& problem,
                                 const model::TrainOptions& options, std::optional<model::CostModel> initial)
    : options_(options),
      model_(std::move(initial)),
      set_(problem ? model::Schema::plan : model::Schema::plan_bits) {
  if (problem) facts_.emplace(*problem);
  if (!model_) return;
  if (model_->info().schema == model::Schema::segment)
    throw base::UsageError("this strategy times whole plans, and the cost model knows single segments");
  if (model_->info().schema == model::Schema::plan && !facts_)
    throw base::UsageError("the cost model knows plans of problems, and no problem is named");
}

std::string FittedPlanModel::fit(std::span<const TimedPlan> plans) {
  model::TrainingSet set(facts_ ? model::Schema::plan : model::Schema::plan_bits);
  const std::size_t group = set.group(facts_ ? facts_->problem().key() : "");
  for (const TimedPlan& one : plans) {
    const model::Example example{.time = one.time_us,
                                 .group = group,
                                 .uniform = one.uniform,
                                 .first_half = one.first_half_us,
                                 .second_half = one.second_half_us};
    if (facts_) {
      set.add(one.plan, *facts_, example);
    } else {
      set.add(one.plan, example);
    }
  }
  set_ = std::move(set);
  model::Trained trained = model::CostModel::train(set_, options_);
  if (trained.model) model_ = std::move(trained.model);
  return trained.missing;
}

model::FeatureTable FittedPlanModel::table_of(model::Schema schema,
                                              std::span<const plan::FusionPlan> plans) const {
  model::FeatureTable table(schema);
  for (const plan::FusionPlan& plan : plans) {
    if (schema == model::Schema::plan) {
      table.add(plan, *facts_);
    } else {
      table.add(plan);
    }
  }
  return table;
}

std::vector<PlanPrediction> FittedPlanModel::predict(std::span<const plan::FusionPlan> plans) const {
  const model::FeatureTable table = table_of(model_->info().schema, plans);
  std::vector<PlanPrediction> predictions;
  for (const model::Prediction& one : model_->predict(table)) predictions.push_back({one.time, one.high});
  return predictions;
}

}  // namespace fusetune::search
