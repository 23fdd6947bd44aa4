#include "search/segment_model.h"

#include <utility>

namespace fusetune::search {
namespace {

/// Twice as many made no better searches of recorded kernels (docs/cost-model.md), and took twice as long.
constexpr int kTrees = 100;
/// The threshold is chosen anew once there are so many times the candidates of the last time: five fits
/// beside the one of the classifier itself, for a figure that hardly moves from round to round.
constexpr double kGrowth = 1.5;

const plan::SegmentVariant& variant_of(const Candidate& candidate) {
  return plan::all_variants()[static_cast<std::size_t>(candidate.variant)];
}

}  // namespace

FittedSegmentModel::FittedSegmentModel(const block::Problem& problem, model::Device device,
                                       std::uint64_t seed)
    : facts_(problem), device_(std::move(device)), options_{.rounds = kTrees, .seed = seed} {}

std::string FittedSegmentModel::fit(std::span<const TimedCandidate> candidates) {
  model::TrainingSet set(model::Schema::segment);
  const std::size_t group = set.group(facts_.problem().key());
  for (const TimedCandidate& one : candidates)
    set.add(variant_of(one.candidate), features_, row_of(one.candidate),
            {.time = one.time_us,
             .group = group,
             .high = one.high,
             .first_half = one.first_half_us,
             .second_half = one.second_half_us});
  set_ = std::move(set);
  model::TrainedClassifier trained = model::Classifier::train(set_, options_);
  if (trained.classifier) {
    classifier_ = std::move(trained.classifier);
    if (static_cast<double>(set_.size()) >= kGrowth * static_cast<double>(threshold_rows_)) {
      threshold_ = held_out_threshold();
      threshold_rows_ = set_.size();
    }
  }
  return trained.missing;
}

/// Of features_.
std::size_t FittedSegmentModel::row_of(const Candidate& candidate) const {
  const auto [place, is_new] = rows_.try_emplace(candidate, rows_.size());
  if (is_new) features_.add(variant_of(candidate), candidate.schedule, facts_, device_);
  return place->second;
}

std::optional<PruningThreshold> FittedSegmentModel::held_out_threshold() const {
  const std::vector<double> held_out = model::held_out_probabilities(set_, options_);
  std::vector<double> of_fast;
  for (std::size_t row = 0; row < held_out.size(); ++row)
    if (set_.examples()[row].high.value_or(false)) of_fast.push_back(held_out[row]);
  if (of_fast.empty()) return std::nullopt;
  return choose_threshold(std::move(of_fast));
}

std::vector<bool> FittedSegmentModel::are_high(std::span<const Candidate> candidates) const {
  model::FeatureTable table(model::Schema::segment);
  for (const Candidate& candidate : candidates) table.add_row_of(features_, row_of(candidate));
  const double least = threshold_ ? threshold_->probability : 0.5;
  std::vector<bool> high;
  for (const double probability : classifier_->probabilities(table)) high.push_back(probability >= least);
  return high;
}

}  // namespace fusetune::search
