#include "measure/pairs.h"

#include <algorithm>
#include <random>

#include "base/tie_band.h"

namespace fusetune::measure {
namespace {

constexpr double kErrorPerLook = 0.1;  // share of the error probability an early look spends
constexpr int kMaximumRoundsFactor = 3;

/// Early looks in a run of `pairs` pairs; the end is not one of them.
int early_looks(int pairs) { return std::max(0, (pairs - 1) / kPairsPerLook); }

double interval_error(bool early, int comparisons, int pairs) {
  // Five early looks (240 pairs) spend a tenth each; longer runs spread a half over all of theirs.
  const int looks = early_looks(pairs);
  const double per_look = looks <= 5 ? kErrorPerLook : 0.5 / looks;
  const double share = early ? per_look : 1 - per_look * looks;
  return kFamilyError * share / std::max(1, comparisons);
}

Interval interval_of(const PairSeries& series, bool early, int comparisons, int pairs) {
  Interval interval = median_interval(paired_ratios(series.baseline_us, series.plan_us),
                                      interval_error(early, comparisons, pairs));
  interval.low = std::max(interval.low, 0.0);
  return interval;
}

bool clearly_apart(const Interval& interval) {
  return interval.low > 1 + base::kTieBand + kClearlyApart ||
         interval.high < 1 - base::kTieBand - kClearlyApart;
}

/// State of one comparison run: who is still timed, and on which side of the baseline next.
class PairTimer {
 public:
  PairTimer(int plans, int pairs, const Sampler& sample, std::uint64_t seed)
      : pairs_(pairs),
        comparisons_(plans - 1),
        sample_(sample),
        random_(seed),
        series_(static_cast<std::size_t>(plans)),
        active_(static_cast<std::size_t>(plans)) {
    for (int plan = 1; plan < plans; ++plan) (plan % 2 == 1 ? before_ : after_).push_back(plan);
    std::fill(active_.begin() + 1, active_.end(), true);
  }

  std::vector<PairSeries> run() {
    for (int round = 0; round < kMaximumRoundsFactor * pairs_ && any_active(); ++round) {
      run_round();
      std::swap(before_, after_);
    }
    for (std::size_t plan = 1; plan < series_.size(); ++plan) {
      PairSeries& series = series_[plan];
      const bool enough = series.stopped_early || 5 * static_cast<int>(series.plan_us.size()) >= 4 * pairs_;
      series.outcome = enough && !series.plan_us.empty() ? Outcome::ok : Outcome::noisy;
    }
    finish_baseline();
    return std::move(series_);
  }

 private:
  bool any_active() const { return std::find(active_.begin(), active_.end(), true) != active_.end(); }

  void run_round() {
    const auto inactive = [this](int plan) { return !active_[static_cast<std::size_t>(plan)]; };
    std::erase_if(before_, inactive);
    std::erase_if(after_, inactive);
    std::shuffle(before_.begin(), before_.end(), random_);
    std::shuffle(after_.begin(), after_.end(), random_);
    for (std::size_t group = 0; group < std::max(before_.size(), after_.size()); ++group) {
      Sample first, second;
      if (group < before_.size()) first = sample_(before_[group]);
      const Sample baseline = sample_(0);
      if (group < after_.size()) second = sample_(after_[group]);
      keep_baseline(baseline);
      if (group < before_.size()) record(before_[group], baseline, first);
      if (group < after_.size()) record(after_[group], baseline, second);
    }
  }

  void keep_baseline(const Sample& sample) {
    if (sample.interrupted) {
      ++series_[0].dropped;
    } else {
      series_[0].baseline_us.push_back(sample.seconds * 1e6);
    }
  }

  void record(int plan, const Sample& baseline, const Sample& sample) {
    PairSeries& series = series_[static_cast<std::size_t>(plan)];
    if (baseline.interrupted || sample.interrupted) {
      ++series.dropped;
      return;
    }
    series.baseline_us.push_back(baseline.seconds * 1e6);
    series.plan_us.push_back(sample.seconds * 1e6);
    const int taken = static_cast<int>(series.plan_us.size());
    if (taken >= pairs_) {
      active_[static_cast<std::size_t>(plan)] = false;
    } else if (taken % kPairsPerLook == 0 && clearly_apart(interval_of(series, true, comparisons_, pairs_))) {
      series.stopped_early = true;
      active_[static_cast<std::size_t>(plan)] = false;
    }
  }

  /// Alone, the baseline is timed for its own sake; else it is as good as the pairs it was part of.
  void finish_baseline() {
    PairSeries& baseline = series_[0];
    bool good = std::any_of(series_.begin() + 1, series_.end(),
                            [](const PairSeries& series) { return series.outcome == Outcome::ok; });
    if (series_.size() == 1) {
      for (int round = 0; round < kMaximumRoundsFactor * pairs_; ++round) {
        if (static_cast<int>(baseline.baseline_us.size()) >= pairs_) break;
        keep_baseline(sample_(0));
      }
      good = !baseline.baseline_us.empty() && 5 * static_cast<int>(baseline.baseline_us.size()) >= 4 * pairs_;
    }
    baseline.plan_us = baseline.baseline_us;
    baseline.outcome = good ? Outcome::ok : Outcome::noisy;
  }

  int pairs_;
  int comparisons_;
  const Sampler& sample_;
  std::mt19937_64 random_;
  std::vector<PairSeries> series_;
  std::vector<bool> active_;
  std::vector<int> before_, after_;
};

}  // namespace

std::vector<PairSeries> time_pairs(int plans, int pairs, const Sampler& sample, std::uint64_t seed) {
  return PairTimer(plans, pairs, sample, seed).run();
}

int samples_of_pairs(int plans, int pairs) {
  const int others = plans - 1;
  return pairs * (others == 0 ? 1 : others + (others + 1) / 2);
}

Interval ratio_interval(const PairSeries& series, int comparisons, int pairs) {
  return interval_of(series, series.stopped_early, comparisons, pairs);
}

}  // namespace fusetune::measure
