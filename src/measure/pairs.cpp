#include "measure/pairs.h"

#include <algorithm>
#include <random>
#include <utility>

namespace fusetune::measure {
namespace {

constexpr int kMaximumRoundsFactor = 3;

/// State of one run: who is still timed, and on which side of the baseline next.
class PairTimer {
 public:
  PairTimer(int plans, int pairs, const Sampler& sample, int part)
      : pairs_(pairs),
        sample_(sample),
        random_(static_cast<std::uint64_t>(part)),
        series_(static_cast<std::size_t>(plans)) {
    for (int plan = 1; plan < plans; ++plan) ((plan + part) % 2 == 1 ? before_ : after_).push_back(plan);
  }

  std::vector<PairSeries> run() {
    for (int round = 0; round < kMaximumRoundsFactor * pairs_ && !(before_.empty() && after_.empty());
         ++round) {
      run_round();
      std::swap(before_, after_);
    }
    for (std::size_t plan = 1; plan < series_.size(); ++plan) {
      PairSeries& series = series_[plan];
      series.outcome = are_enough_pairs(series.plan_us.size(), pairs_) ? Outcome::ok : Outcome::noisy;
    }
    finish_baseline();
    return std::move(series_);
  }

 private:
  bool is_complete(int plan) const {
    return static_cast<int>(series_[static_cast<std::size_t>(plan)].plan_us.size()) >= pairs_;
  }

  void run_round() {
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
    const auto complete = [this](int plan) { return is_complete(plan); };
    std::erase_if(before_, complete);
    std::erase_if(after_, complete);
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
      good = are_enough_pairs(baseline.baseline_us.size(), pairs_);
    }
    baseline.plan_us = baseline.baseline_us;
    baseline.outcome = good ? Outcome::ok : Outcome::noisy;
  }

  int pairs_;
  const Sampler& sample_;
  std::mt19937_64 random_;
  std::vector<PairSeries> series_;
  std::vector<int> before_, after_;
};

}  // namespace

std::vector<PairSeries> time_pairs(int plans, int pairs, const Sampler& sample, int part) {
  return PairTimer(plans, pairs, sample, part).run();
}

int samples_of_pairs(int plans, int pairs) {
  const int others = plans - 1;
  return pairs * (others == 0 ? 1 : others + (others + 1) / 2);
}

bool are_enough_pairs(std::size_t taken, int wanted) {
  return taken > 0 && 5 * static_cast<int>(taken) >= 4 * wanted;
}

}  // namespace fusetune::measure
