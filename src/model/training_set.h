// Measured candidates as the cost model learns from them: features and labels.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/features.h"

namespace fusetune::model {

/// What is known of one measured candidate.
struct Example {
  double time = 0;                // any unit, the same for all of a set; failed: NaN
  std::size_t group = 0;          // index from TrainingSet::group(): its problem
  bool uniform = true;            // sampled uniformly, not by a search that looks for fast ones
  std::optional<bool> high = {};  // its class where the caller knows better than the threshold
  int variant = -1;               // plan::variant_index(), set by TrainingSet::add(); -1: a whole plan
  /// Two independent measurements of it, for the noise ceiling. 0: not measured twice.
  double first_half = 0, second_half = 0;
};

class TrainingSet {
 public:
  explicit TrainingSet(Schema schema) : features_(schema) {}

  /// Index of the group (problem) of this name, new where there is none.
  std::size_t group(std::string_view name);

  /// An example without a time (not finite, or not above 0) is left out and counted. Schema as in
  /// FeatureTable.
  void add(const plan::FusionPlan& plan, const Example& example);
  void add(const plan::FusionPlan& plan, const ProblemFacts& facts, const Example& example);
  void add(const plan::SegmentVariant& variant, const lower::AnySchedule& schedule, const ProblemFacts& facts,
           const Device& device, const Example& example);
  /// The same where `row` of `features` has the segment's.
  void add(const plan::SegmentVariant& variant, const FeatureTable& features, std::size_t row,
           const Example& example);
  /// Counts candidates that were left out before they came here.
  void count_left_out(int count) { left_out_ += count; }

  std::size_t size() const { return examples_.size(); }
  int left_out() const { return left_out_; }
  const FeatureTable& features() const { return features_; }
  std::span<const Example> examples() const { return examples_; }
  const std::vector<std::string>& groups() const { return groups_; }

  /// The rows of these indices, in this order; groups keep their numbers.
  TrainingSet subset(std::span<const std::size_t> rows) const;
  /// Of features and labels: equal data give equal hashes on every machine.
  std::string hash() const;

 private:
  bool accept(const Example& example);

  FeatureTable features_;
  std::vector<Example> examples_;
  std::vector<std::string> groups_;
  int left_out_ = 0;
};

/// The two labels of every row of a set.
struct Labels {
  std::vector<float> log_times;    // log(time / work) - center
  double center = 0;               // mean of log(time / work): trees start from 0
  std::vector<bool> high;          // among the fastest `high_fraction` of its group
  int groups_without_uniform = 0;  // their threshold comes from all rows, which favours the fast ones
};

/// Times span microseconds to seconds; trees that start from 0.5 never split on differences of 1e-5, hence
/// logs. High: at most the time of place max(1, round(high_fraction x n)) among the group's n uniformly
/// sampled rows, or among all of them where none was sampled uniformly.
Labels make_labels(const TrainingSet& set, double high_fraction);

}  // namespace fusetune::model
