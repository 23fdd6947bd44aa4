#include "measure/comparison.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/tie_band.h"

namespace fusetune::measure {
namespace {

constexpr double kErrorPerLook = 0.1;  // share of the error probability an early look spends

bool is_look(int processes) { return processes >= kProcessesOfFirstLook && processes % 2 == 0; }

bool clearly_apart(const Interval& interval) {
  return interval.low > 1 + base::kTieBand + kClearlyApart ||
         interval.high < 1 - base::kTieBand - kClearlyApart;
}

void append(std::vector<double>& to, const std::vector<double>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

Interval ratio_interval(const PairSeries& series, double error, double effect) {
  Interval interval = median_interval(paired_ratios(series.baseline_us, series.plan_us), error, effect);
  interval.low = std::max(interval.low, 0.0);
  return interval;
}

}  // namespace

double design_effect(const PlanSeries& series) {
  const auto processes =
      std::count_if(series.counts.begin(), series.counts.end(), [](int n) { return n > 0; });
  if (processes < 2) return 1;
  const std::vector<double> ratios = paired_ratios(series.pairs.baseline_us, series.pairs.plan_us);
  const double center = median(ratios);
  double sum = 0;
  auto ratio = ratios.begin();
  for (const int count : series.counts) {
    double signs = 0;
    for (int i = 0; i < count; ++i, ++ratio) signs += (*ratio > center) - (*ratio < center);
    if (count > 0) sum += signs * signs / count;
  }
  return sum / static_cast<double>(processes - 1);
}

Comparison::Comparison(int plans, int pairs)
    : pairs_(pairs),
      processes_(std::clamp(pairs / kLeastPairsOfProcess, 1, kMostProcesses)),
      plans_(static_cast<std::size_t>(plans)) {}

std::vector<int> Comparison::next_plans() const {
  if (part_ == processes_ || !plans_.at(0).is_open) return {};
  std::vector<int> next;
  for (int plan = 0; plan < static_cast<int>(plans_.size()); ++plan)
    if (at(plan).is_open) next.push_back(plan);
  const bool only_baseline = next.size() == 1 && plans_.size() > 1;
  return only_baseline ? std::vector<int>{} : next;
}

/// As many for each process, the first ones one more where they do not divide.
int Comparison::next_pairs() const { return pairs_ / processes_ + (part_ < pairs_ % processes_ ? 1 : 0); }

void Comparison::add(const std::vector<PairSeries>& part) {
  const std::vector<int> timed = next_plans();
  if (part.size() != timed.size()) throw base::InternalError("a comparison got the pairs of other plans");
  for (std::size_t i = 0; i < timed.size(); ++i) {
    PlanSeries& series = at(timed[i]);
    append(series.pairs.baseline_us, part[i].baseline_us);
    append(series.pairs.plan_us, part[i].plan_us);
    series.pairs.dropped += part[i].dropped;
    series.counts.push_back(static_cast<int>(part[i].plan_us.size()));
  }
  ++part_;
  look();
}

void Comparison::take_out(int plan) { at(plan).is_open = false; }

int Comparison::early_looks() const {
  int looks = 0;
  for (int part = 1; part < processes_; ++part) looks += is_look(part);
  return looks;
}

void Comparison::look() {
  double sum = 0;
  for (std::size_t plan = 1; plan < plans_.size(); ++plan) sum += measure::design_effect(plans_[plan]);
  design_effect_ = plans_.size() > 1 ? sum / static_cast<double>(plans_.size() - 1) : 1;
  if (part_ < processes_ && is_look(part_)) {
    for (int plan = 1; plan < static_cast<int>(plans_.size()); ++plan) {
      if (!at(plan).is_open || !clearly_apart(interval(plan, /*early=*/true))) continue;
      at(plan).stopped_early = true;
      at(plan).is_open = false;
    }
  }
  conclude();
}

/// A plan that other processes kept from half of its pairs in each process has no time; the baseline is as
/// good as the pairs it was part of.
void Comparison::conclude() {
  bool any = false;
  for (std::size_t plan = 1; plan < plans_.size(); ++plan) {
    PlanSeries& series = plans_[plan];
    const bool enough = are_enough_pairs(series.pairs.plan_us.size(), pairs_);
    series.pairs.outcome = series.stopped_early || enough ? Outcome::ok : Outcome::noisy;
    any = any || series.pairs.outcome == Outcome::ok;
  }
  PairSeries& baseline = plans_[0].pairs;
  if (plans_.size() == 1) any = are_enough_pairs(baseline.plan_us.size(), pairs_);
  baseline.outcome = any ? Outcome::ok : Outcome::noisy;
}

const PairSeries& Comparison::series(int plan) const { return at(plan).pairs; }

Interval Comparison::interval(int plan) const { return interval(plan, at(plan).stopped_early); }

/// A plan's own design effect is known from few processes, that of all plans from more: half of each.
Interval Comparison::interval(int plan, bool early) const {
  const PlanSeries& series = at(plan);
  const double effect = std::max(1.0, (measure::design_effect(series) + design_effect_) / 2);
  const double share = early ? kErrorPerLook : 1 - kErrorPerLook * early_looks();
  const auto comparisons = static_cast<double>(std::max<std::size_t>(1, plans_.size() - 1));
  return ratio_interval(series.pairs, kFamilyError * share / comparisons, effect);
}

Interval ratio_interval(const PairSeries& series) { return ratio_interval(series, kFamilyError, 1); }

}  // namespace fusetune::measure
