#include "model/training_set.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/error.h"
#include "base/hash.h"
#include "base/number.h"

namespace fusetune::model {
namespace {

/// Time of the slowest High row of a group.
double threshold(std::vector<double> times, double high_fraction) {
  const auto wanted =
      static_cast<std::size_t>(std::lround(high_fraction * static_cast<double>(times.size())));
  const auto place = std::clamp<std::size_t>(wanted, 1, times.size()) - 1;
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(place), times.end());
  return times[place];
}

/// One threshold a group; 0 for a group without rows.
std::vector<double> thresholds(const TrainingSet& set, double high_fraction, int& groups_without_uniform) {
  std::vector<std::vector<double>> uniform(set.groups().size()), all(set.groups().size());
  for (const Example& example : set.examples()) {
    all[example.group].push_back(example.time);
    if (example.uniform) uniform[example.group].push_back(example.time);
  }
  std::vector<double> result(set.groups().size(), 0);
  for (std::size_t group = 0; group < result.size(); ++group) {
    if (all[group].empty()) continue;
    if (uniform[group].empty()) ++groups_without_uniform;
    result[group] = threshold(uniform[group].empty() ? all[group] : uniform[group], high_fraction);
  }
  return result;
}

}  // namespace

std::size_t TrainingSet::group(std::string_view name) {
  const auto found = std::find(groups_.begin(), groups_.end(), name);
  if (found != groups_.end()) return static_cast<std::size_t>(found - groups_.begin());
  groups_.emplace_back(name);
  return groups_.size() - 1;
}

bool TrainingSet::accept(const Example& example) {
  if (!std::isfinite(example.time) || example.time <= 0) {
    ++left_out_;
    return false;
  }
  if (example.group >= groups_.size())
    throw base::InternalError(
        fmt::format("example of group {}, but there are {}", example.group, groups_.size()));
  examples_.push_back(example);
  return true;
}

void TrainingSet::add(const plan::FusionPlan& plan, const Example& example) {
  if (accept(example)) features_.add(plan);
}

void TrainingSet::add(const plan::FusionPlan& plan, const ProblemFacts& facts, const Example& example) {
  if (accept(example)) features_.add(plan, facts);
}

void TrainingSet::add(const plan::SegmentVariant& variant, const lower::AnySchedule& schedule,
                      const ProblemFacts& facts, const Device& device, const Example& example) {
  if (!accept(example)) return;
  examples_.back().variant = plan::variant_index(variant);
  features_.add(variant, schedule, facts, device);
}

void TrainingSet::add(const plan::SegmentVariant& variant, const FeatureTable& features, std::size_t row,
                      const Example& example) {
  if (!accept(example)) return;
  examples_.back().variant = plan::variant_index(variant);
  features_.add_row_of(features, row);
}

TrainingSet TrainingSet::subset(std::span<const std::size_t> rows) const {
  TrainingSet result(features_.schema());
  result.groups_ = groups_;
  for (const std::size_t row : rows) {
    result.examples_.push_back(examples_[row]);
    result.features_.add_row_of(features_, row);
  }
  return result;
}

std::string TrainingSet::hash() const {
  base::Hasher hasher;
  hasher.add(schema_hash(features_.schema()));
  for (const float value : features_.values()) hasher.add(std::uint64_t{std::bit_cast<std::uint32_t>(value)});
  for (const Example& example : examples_) {
    hasher.add(std::bit_cast<std::uint64_t>(example.time)).add(groups_[example.group]);
    hasher.add(std::uint64_t{example.uniform});
    hasher.add(example.high ? std::uint64_t{*example.high} + 1 : std::uint64_t{0});
  }
  return hasher.hex();
}

Labels make_labels(const TrainingSet& set, double high_fraction) {
  Labels labels;
  const std::vector<double> limits = thresholds(set, high_fraction, labels.groups_without_uniform);
  std::vector<double> logs;
  for (std::size_t row = 0; row < set.size(); ++row) {
    const Example& example = set.examples()[row];
    logs.push_back(std::log(example.time / set.features().work(row)));
    labels.center += logs.back() / static_cast<double>(set.size());
    labels.high.push_back(example.high.value_or(example.time <= limits[example.group]));
  }
  for (const double value : logs) labels.log_times.push_back(static_cast<float>(value - labels.center));
  return labels;
}

}  // namespace fusetune::model
