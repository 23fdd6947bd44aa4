#include "measure/comparison.h"

#include <algorithm>
#include <cmath>

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

Interval range(const PairSeries& series) {
  const std::vector<double> ratios = paired_ratios(series.baseline_us, series.plan_us);
  const auto [least, most] = std::minmax_element(ratios.begin(), ratios.end());
  return ratios.empty() ? Interval{} : Interval{*least, *most};
}

Interval ratio_interval(const PairSeries& series, double error, double effect) {
  Interval interval = median_interval(paired_ratios(series.baseline_us, series.plan_us), error, effect);
  interval.low = std::max(interval.low, 0.0);
  return interval;
}

}  // namespace

std::optional<double> design_effect(const PlanSeries& plan) {
  const std::vector<int>& counts = plan.pairs_of_process;
  const auto processes = std::count_if(counts.begin(), counts.end(), [](int count) { return count > 0; });
  if (processes < 2) return std::nullopt;
  const std::vector<double> ratios = paired_ratios(plan.series.baseline_us, plan.series.plan_us);
  const double center = median(ratios);
  double sum = 0;
  auto ratio = ratios.begin();
  for (const int count : counts) {
    double signs = 0;
    for (int i = 0; i < count; ++i, ++ratio) signs += (*ratio > center) - (*ratio < center);
    if (count > 0) sum += signs * signs / count;
  }
  return sum / static_cast<double>(processes - 1);
}

Comparison::Comparison(int plans, int pairs, Looks looks)
    : pairs_(pairs),
      looks_(looks),
      processes_(std::min(pairs / kLeastPairsOfProcess / 2 * 2, kMostProcesses)),
      plans_(static_cast<std::size_t>(plans)) {
  processes_ = std::max(processes_, 1);
}

/// Of the one that has the fewest; the baseline counts where it is alone.
int Comparison::missing_pairs(const std::vector<int>& plans) const {
  int most = 0;
  for (const int plan : plans) {
    if (plan == 0 && plans.size() > 1) continue;
    most = std::max(most, pairs_ - static_cast<int>(at(plan).series.plan_us.size()));
  }
  return most;
}

std::vector<int> Comparison::next_plans() const {
  if (process_ == processes_ || !at(0).is_open) return {};
  std::vector<int> next;
  for (int plan = 0; plan < static_cast<int>(plans_.size()); ++plan)
    if (at(plan).is_open) next.push_back(plan);
  const bool all_others_failed =
      std::all_of(plans_.begin() + 1, plans_.end(), [](const PlanSeries& plan) { return plan.has_failed; });
  if (next.size() == 1 && !all_others_failed) return {};
  return missing_pairs(next) > 0 ? next : std::vector<int>{};
}

int Comparison::next_pairs() const {
  const auto shares = [](int pairs, int processes) { return (pairs + processes - 1) / processes; };
  return std::min(shares(missing_pairs(next_plans()), processes_ - process_), 2 * shares(pairs_, processes_));
}

void Comparison::add(const std::vector<PairSeries>& taken) {
  const std::vector<int> timed = next_plans();
  if (taken.size() != timed.size()) throw base::InternalError("a comparison got the pairs of other plans");
  for (std::size_t i = 0; i < timed.size(); ++i) {
    PlanSeries& plan = at(timed[i]);
    append(plan.series.baseline_us, taken[i].baseline_us);
    append(plan.series.plan_us, taken[i].plan_us);
    plan.series.dropped += taken[i].dropped;
    plan.pairs_of_process.push_back(static_cast<int>(taken[i].plan_us.size()));
  }
  ++process_;
  find_design_effect();
  if (looks_ == Looks::early && process_ < processes_ && is_look(process_)) drop_clearly_apart();
  conclude();
}

void Comparison::take_out(int plan) {
  at(plan).has_failed = true;
  at(plan).is_open = false;
}

int Comparison::early_looks() const {
  if (looks_ == Looks::at_the_end) return 0;
  int looks = 0;
  for (int processes = 1; processes < processes_; ++processes) looks += is_look(processes);
  return looks;
}

void Comparison::find_design_effect() {
  double sum = 0;
  int count = 0;
  for (std::size_t plan = 1; plan < plans_.size(); ++plan) {
    const std::optional<double> effect = measure::design_effect(plans_[plan]);
    sum += effect.value_or(0);
    count += effect.has_value();
  }
  design_effect_ = count > 0 ? sum / count : 1;
}

void Comparison::drop_clearly_apart() {
  for (int plan = 1; plan < static_cast<int>(plans_.size()); ++plan) {
    if (!at(plan).is_open || !clearly_apart(interval(plan, /*early=*/true))) continue;
    at(plan).stopped_early = true;
    at(plan).is_open = false;
  }
}

/// The baseline is as good as the pairs it was part of, or as its own samples.
void Comparison::conclude() {
  bool any = are_enough_pairs(plans_[0].series.plan_us.size(), pairs_);
  for (std::size_t i = 1; i < plans_.size(); ++i) {
    PlanSeries& plan = plans_[i];
    const bool enough = plan.stopped_early || are_enough_pairs(plan.series.plan_us.size(), pairs_);
    plan.series.outcome = enough ? Outcome::ok : Outcome::noisy;
    any = any || enough;
  }
  plans_[0].series.outcome = any ? Outcome::ok : Outcome::noisy;
}

const PairSeries& Comparison::series(int plan) const { return at(plan).series; }

Interval Comparison::interval(int plan) const { return interval(plan, at(plan).stopped_early); }

/// Eight processes say little of one plan's design effect: half of it is the mean of all plans, which is
/// surer, though not as sure as their number would make it, as all share the baseline.
Interval Comparison::interval(int plan, bool early) const {
  const double own = measure::design_effect(at(plan)).value_or(design_effect_);
  const double effect = std::max(1.0, (own + design_effect_) / 2);
  const double share = early ? kErrorPerLook : 1 - kErrorPerLook * early_looks();
  const auto comparisons = static_cast<double>(std::max<std::size_t>(1, plans_.size() - 1));
  const Interval interval = ratio_interval(at(plan).series, kFamilyError * share / comparisons, effect);
  const auto processes = static_cast<int>(at(plan).pairs_of_process.size());
  return std::isfinite(interval.high) || processes < kMostProcesses ? interval : range(at(plan).series);
}

}  // namespace fusetune::measure
