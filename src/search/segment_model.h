// The cost model as segment strategies see it: which schedules of a variant are worth timing.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/cost_model.h"
#include "model/evaluation.h"
#include "search/pruning_threshold.h"
#include "search/space.h"

namespace fusetune::search {

/// A candidate that ran right, with its time, and whether a plan through it could be among the best.
struct TimedCandidate {
  Candidate candidate;
  double time_us = 0;
  bool high = false;
  double first_half_us = 0, second_half_us = 0;  // as of Trial
  double error_us = 0;                           // standard error of the time; 0: not known
};

/// What a strategy learns from and asks.
class SegmentModel {
 public:
  virtual ~SegmentModel() = default;
  /// Learns from everything timed so far. Empty, or why there is no model (yet): the last one stays.
  virtual std::string fit(std::span<const TimedCandidate> candidates) = 0;
  virtual bool ready() const = 0;
  /// For each candidate whether it is expected to be TimedCandidate::high. Only when ready().
  virtual std::vector<bool> are_high(std::span<const Candidate> candidates) const = 0;
  /// What its classes go by; nullopt: they have no such threshold, or too little was held out to say.
  virtual std::optional<PruningThreshold> threshold() const { return std::nullopt; }
};

/// XGBoost's classifier, fitted to the candidates of one problem on one device as they are timed. Its classes
/// go by a threshold chosen on candidates held out, anew whenever there are half as many more.
class FittedSegmentModel : public SegmentModel {
 public:
  FittedSegmentModel(const block::Problem& problem, model::Device device, std::uint64_t seed);
  std::string fit(std::span<const TimedCandidate> candidates) override;
  bool ready() const override { return classifier_.has_value(); }
  std::vector<bool> are_high(std::span<const Candidate> candidates) const override;
  std::optional<PruningThreshold> threshold() const override { return threshold_; }
  /// How good a whole cost model of the candidates last learned from is: each fifth of them is predicted from
  /// the others. No group: too few of them.
  model::Evaluation evaluate() const { return model::cross_validate_plans(set_, options_); }

 private:
  std::optional<PruningThreshold> held_out_threshold() const;
  std::size_t row_of(const Candidate& candidate) const;

  model::ProblemFacts facts_;
  model::Device device_;
  model::TrainOptions options_;
  std::optional<model::Classifier> classifier_;
  std::optional<PruningThreshold> threshold_;
  std::size_t threshold_rows_ = 0;                  // candidates that it was chosen on
  model::TrainingSet set_{model::Schema::segment};  // of the last fit
  // Of every candidate seen: features need a kernel lowered, and every round asks about nearly all again.
  mutable model::FeatureTable features_{model::Schema::segment};
  mutable std::map<Candidate, std::size_t> rows_;
};

}  // namespace fusetune::search
