#include "search/guided.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include "search/queue.h"

namespace fusetune::search {
namespace {

constexpr std::size_t kRound = 16, kDrawn = 4;
constexpr int kIdleRounds = 2;

/// Candidates of `rounds` more rounds, where `left` are not asked for.
int in_rounds(int rounds, std::size_t left) {
  return static_cast<int>(std::min(left, static_cast<std::size_t>(std::max(0, rounds)) * kRound));
}

/// A variant is of the fast class when the shortest plan through it is at most this much slower than the
/// best.
constexpr double kPromising = 1.03;

/// The shortest plan through a variant that takes `time_us`.
double cost_through(const plan::PathCosts& paths, int variant, double time_us) {
  const plan::Segment& segment = plan::all_variants()[static_cast<std::size_t>(variant)].segment;
  return paths.to(segment.first) + time_us + paths.from(segment.last + 1);
}

}  // namespace

Guided::Guided(const Space& space, SegmentModel* model, std::uint64_t seed)
    : defaults_(space, seed),
      model_(model),
      random_(seed),
      best_sum_us_(std::numeric_limits<double>::infinity()),
      best_of_last_us_(best_sum_us_) {}

/// How many rounds find something faster nobody knows: this counts the fewest that are to come.
int Guided::expected() const {
  if (!has_pool_) {
    const int defaults = defaults_.expected_defaults();
    return defaults + in_rounds(kIdleRounds, static_cast<std::size_t>(defaults_.expected() - defaults));
  }
  const int asked = told_ + waiting_ + static_cast<int>(queue_.size());
  return done_ ? asked : asked + in_rounds(kIdleRounds - 1 - idle_rounds_, pool_.size());
}

std::int64_t Guided::pruned() const { return std::count(slow_.begin(), slow_.end(), true); }

std::int64_t Guided::left() const {
  if (!has_pool_) return defaults_.left();
  return waiting_ + static_cast<std::int64_t>(queue_.size() + pool_.size()) - pruned();
}

void Guided::tell(const Candidate& candidate, const Trial& trial) {
  --waiting_;
  ++told_;
  if (!has_pool_) defaults_.tell(candidate, trial);
  if (trial.ok)
    timed_.push_back({candidate, trial.time_us, false, trial.first_half_us, trial.second_half_us});
  if (best_.tell(candidate, trial)) best_sum_us_ = best_.best_sum_us();
}

void Guided::learn() {
  if (model_ == nullptr) return;
  const plan::PathCosts paths(best_.costs());
  for (TimedCandidate& one : timed_)
    one.high = cost_through(paths, one.candidate.variant, one.time_us) <= kPromising * best_sum_us_;
  model_->fit(timed_);  // too little to learn from: every schedule counts as promising
}

/// Of the shortest plan through each candidate of the pool; +infinity for one that is not promising.
std::vector<double> Guided::costs_through() const {
  const plan::PathCosts paths(best_.costs());
  std::vector<CandidatePrediction> predictions;
  if (model_ != nullptr && model_->ready()) predictions = model_->predict(pool_);
  std::vector<double> costs(pool_.size(), std::numeric_limits<double>::infinity());
  for (std::size_t i = 0; i < pool_.size(); ++i) {
    const std::optional<Incumbents::Best>& known = best_[pool_[i].variant];
    if (predictions.empty()) {
      // Its default's time, as if another schedule gained nothing; a variant without one may do anything.
      costs[i] = cost_through(paths, pool_[i].variant, known ? known->time_us : 0);
    } else if (predictions[i].high) {
      costs[i] = cost_through(paths, pool_[i].variant, predictions[i].time_us);
    }
  }
  return costs;
}

void Guided::take(std::size_t index) {
  queue_.push_back(pool_[index]);
  pool_.erase(pool_.begin() + static_cast<std::ptrdiff_t>(index));
  slow_.erase(slow_.begin() + static_cast<std::ptrdiff_t>(index));
}

void Guided::start_round() {
  idle_rounds_ = best_sum_us_ < best_of_last_us_ ? 0 : idle_rounds_ + 1;
  best_of_last_us_ = best_sum_us_;
  learn();
  const std::vector<double> costs = costs_through();
  std::vector<std::size_t> promising;
  slow_.clear();
  for (std::size_t i = 0; i < costs.size(); ++i) {
    slow_.push_back(costs[i] == std::numeric_limits<double>::infinity());
    if (!slow_.back()) promising.push_back(i);
  }
  done_ = promising.empty() || idle_rounds_ >= kIdleRounds;
  if (done_) return;
  std::stable_sort(promising.begin(), promising.end(),
                   [&](std::size_t a, std::size_t b) { return costs[a] < costs[b]; });
  if (promising.size() > kRound - kDrawn) promising.resize(kRound - kDrawn);
  std::sort(promising.begin(), promising.end(), std::greater<>());  // erasing moves those behind
  for (const std::size_t index : promising) take(index);
  for (std::size_t i = 0; i < kDrawn && !pool_.empty(); ++i) take(random_.below(pool_.size()));
  random_.shuffle(queue_);
}

std::vector<Candidate> Guided::ask(int limit) {
  if (!has_pool_) {
    std::vector<Candidate> candidates = defaults_.ask(limit);
    if (!defaults_.in_last_phase()) {
      waiting_ += static_cast<int>(candidates.size());
      return candidates;
    }
    has_pool_ = true;
    pool_ = std::move(candidates);
    const std::vector<Candidate> rest = defaults_.ask(std::numeric_limits<int>::max());
    pool_.insert(pool_.end(), rest.begin(), rest.end());
    best_of_last_us_ = std::numeric_limits<double>::infinity();
  }
  if (queue_.empty() && waiting_ == 0 && !done_) start_round();
  std::vector<Candidate> candidates = take_last(queue_, limit);
  waiting_ += static_cast<int>(candidates.size());
  return candidates;
}

}  // namespace fusetune::search
