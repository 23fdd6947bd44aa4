#include "search/model_prior.h"

#include <utility>

namespace fusetune::search {

ModelPrior::ModelPrior(std::string name, model::CostModel model, const block::Problem& problem,
                       model::Device device)
    : name_(std::move(name)), model_(std::move(model)), facts_(problem), device_(std::move(device)) {}

std::vector<double> ModelPrior::predict_us(std::span<const Candidate> candidates) const {
  model::FeatureTable table(model::Schema::segment);
  for (const Candidate& one : candidates)
    table.add(plan::all_variants()[static_cast<std::size_t>(one.variant)], one.schedule, facts_, device_);
  std::vector<double> times;
  for (const model::Prediction& prediction : model_.predict(table)) times.push_back(prediction.time);
  return times;
}

}  // namespace fusetune::search
