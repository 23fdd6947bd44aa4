#include "search/segment_model.h"

#include <utility>

namespace fusetune::search {
namespace {

const plan::SegmentVariant& variant_of(const Candidate& candidate) {
  return plan::all_variants()[static_cast<std::size_t>(candidate.variant)];
}

}  // namespace

FittedSegmentModel::FittedSegmentModel(const block::Problem& problem, model::Device device,
                                       const model::TrainOptions& options)
    : facts_(problem), device_(std::move(device)), options_(options) {}

std::string FittedSegmentModel::fit(std::span<const TimedCandidate> candidates) {
  model::TrainingSet set(model::Schema::segment);
  const std::size_t group = set.group(facts_.problem().key());
  for (const TimedCandidate& one : candidates)
    set.add(variant_of(one.candidate), one.candidate.schedule, facts_, device_,
            {.time = one.time_us,
             .group = group,
             .high = one.high,
             .first_half = one.first_half_us,
             .second_half = one.second_half_us});
  set_ = std::move(set);
  model::Trained trained = model::CostModel::train(set_, options_);
  if (trained.model) {
    model_ = std::move(trained.model);
    threshold_ = held_out_threshold();
  }
  return trained.missing;
}

std::optional<PruningThreshold> FittedSegmentModel::held_out_threshold() const {
  std::vector<double> probabilities;
  for (const model::HeldOutRow& one : model::hold_out(set_, options_))
    if (set_.examples()[one.row].high.value_or(false)) probabilities.push_back(one.prediction.probability);
  if (probabilities.empty()) return std::nullopt;
  return choose_threshold(std::move(probabilities));
}

std::vector<CandidatePrediction> FittedSegmentModel::predict(std::span<const Candidate> candidates) const {
  model::FeatureTable table(model::Schema::segment);
  for (const Candidate& candidate : candidates)
    table.add(variant_of(candidate), candidate.schedule, facts_, device_);
  std::vector<CandidatePrediction> predictions;
  for (const model::Prediction& one : model_->predict(table))
    predictions.push_back({one.time, threshold_ ? one.probability >= threshold_->probability : one.high});
  return predictions;
}

}  // namespace fusetune::search
