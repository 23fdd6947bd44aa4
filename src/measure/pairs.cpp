#include "measure/pairs.h"

#include <algorithm>
#include <random>
#include <utility>

namespace fusetune::measure {
namespace {

/// Pairs taken for each wanted, at most.
constexpr int kMostTakenForOne = 3;

/// `missing` samples in as many turns as they need, all about as long.
int samples_of_turn(int missing) {
  const int turns = (missing + kSamplesPerTurn - 1) / kSamplesPerTurn;
  return turns == 0 ? 0 : (missing + turns - 1) / turns;
}

/// State of one run: who is still timed, and on which side of the baseline next.
class PairTimer {
 public:
  PairTimer(int plans, int pairs, const Turn& turn, int process)
      : pairs_(pairs),
        turn_(turn),
        random_(static_cast<std::uint64_t>(process)),
        series_(static_cast<std::size_t>(plans)) {
    for (int plan = 1; plan < plans; ++plan) ((plan + process) % 2 == 1 ? before_ : after_).push_back(plan);
  }

  std::vector<PairSeries> run() {
    for (int taken = 0; taken < kMostTakenForOne * pairs_ && !(before_.empty() && after_.empty());) {
      const int samples = samples_of_turn(most_missing());
      run_round(samples);
      taken += samples;
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
  int missing(int plan) const {
    return pairs_ - static_cast<int>(series_[static_cast<std::size_t>(plan)].plan_us.size());
  }

  int most_missing() const {
    int most = 0;
    for (const auto* side : {&before_, &after_})
      for (const int plan : *side) most = std::max(most, missing(plan));
    return most;
  }

  void run_round(int samples) {
    std::shuffle(before_.begin(), before_.end(), random_);
    std::shuffle(after_.begin(), after_.end(), random_);
    for (std::size_t group = 0; group < std::max(before_.size(), after_.size()); ++group) {
      std::vector<Sample> first, second;
      if (group < before_.size()) first = turn_(before_[group], samples);
      const std::vector<Sample> baseline = turn_(0, samples);
      if (group < after_.size()) second = turn_(after_[group], samples);
      keep_baseline(baseline);
      if (group < before_.size()) record(before_[group], baseline, first);
      if (group < after_.size()) record(after_[group], baseline, second);
    }
    const auto complete = [this](int plan) { return missing(plan) == 0; };
    std::erase_if(before_, complete);
    std::erase_if(after_, complete);
  }

  void keep_baseline(const std::vector<Sample>& samples) {
    for (const Sample& sample : samples) {
      if (sample.interrupted) {
        ++series_[0].dropped;
      } else {
        series_[0].baseline_us.push_back(sample.seconds * 1e6);
      }
    }
  }

  void record(int plan, const std::vector<Sample>& baseline, const std::vector<Sample>& samples) {
    PairSeries& series = series_[static_cast<std::size_t>(plan)];
    for (std::size_t i = 0; i < samples.size() && missing(plan) > 0; ++i) {
      if (baseline[i].interrupted || samples[i].interrupted) {
        ++series.dropped;
        continue;
      }
      series.baseline_us.push_back(baseline[i].seconds * 1e6);
      series.plan_us.push_back(samples[i].seconds * 1e6);
    }
  }

  /// Alone, the baseline is timed for its own sake; else it is as good as the pairs it was part of.
  void finish_baseline() {
    PairSeries& baseline = series_[0];
    bool good = std::any_of(series_.begin() + 1, series_.end(),
                            [](const PairSeries& series) { return series.outcome == Outcome::ok; });
    if (series_.size() == 1) {
      for (int taken = 0; taken < kMostTakenForOne * pairs_;) {
        const int samples = samples_of_turn(pairs_ - static_cast<int>(baseline.baseline_us.size()));
        if (samples == 0) break;
        keep_baseline(turn_(0, samples));
        taken += samples;
      }
      good = are_enough_pairs(baseline.baseline_us.size(), pairs_);
    }
    baseline.plan_us = baseline.baseline_us;
    baseline.outcome = good ? Outcome::ok : Outcome::noisy;
  }

  int pairs_;
  const Turn& turn_;
  std::mt19937_64 random_;
  std::vector<PairSeries> series_;
  std::vector<int> before_, after_;
};

}  // namespace

std::vector<PairSeries> time_pairs(int plans, int pairs, const Turn& turn, int process) {
  return PairTimer(plans, pairs, turn, process).run();
}

int samples_of_pairs(int plans, int pairs) {
  const int others = plans - 1;
  return pairs * (others == 0 ? 1 : others + (others + 1) / 2);
}

bool are_enough_pairs(std::size_t taken, int wanted) {
  return taken > 0 && 5 * static_cast<int>(taken) >= 4 * wanted;
}

}  // namespace fusetune::measure
