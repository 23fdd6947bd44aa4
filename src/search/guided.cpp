#include "search/guided.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "search/fast_class.h"
#include "search/queue.h"

namespace fusetune::search {
namespace {

constexpr std::size_t kRound = 16, kDrawn = 4;

const plan::Segment& segment_of(int variant) {
  return plan::all_variants()[static_cast<std::size_t>(variant)].segment;
}

}  // namespace

Guided::Guided(const Space& space, SegmentModel* model, std::uint64_t seed, const Closing& closing,
               Priors priors)
    : expectation_(space.work, std::move(priors)),
      defaults_(space, seed, [this](const Candidate& candidate) { return expected_cost(candidate); }),
      model_(model),
      random_(seed),
      closing_(closing),
      best_sum_us_(std::numeric_limits<double>::infinity()) {}

/// Of the shortest plan through a candidate that takes what is expected of it; 0: nothing is.
double Guided::expected_cost(const Candidate& candidate) {
  expectation_.test_priors(best_);
  const std::optional<double> us = expectation_.expected_us(candidate);
  return us ? cost_through(plan::PathCosts(best_.costs()), candidate.variant, *us) : 0;
}

/// Before the first fit all: what will be pruned nobody knows.
int Guided::expected() const {
  if (!has_pool_) return defaults_.expected();
  const int asked = told_ + waiting_ + static_cast<int>(queue_.size());
  if (done_ || auditing_) return asked;
  const auto slow = static_cast<std::size_t>(count(Standing::slow));
  return asked +
         static_cast<int>(static_cast<std::size_t>(count(Standing::promising)) + PruningAudit::draws(slow));
}

std::int64_t Guided::count(Standing standing) const {
  return std::count_if(pool_.begin(), pool_.end(),
                       [&](const Open& open) { return open.standing == standing; });
}

std::int64_t Guided::pruned() const { return count(Standing::slow); }

std::int64_t Guided::left() const {
  if (!has_pool_) return defaults_.left();
  return waiting_ + static_cast<std::int64_t>(queue_.size()) + count(Standing::promising);
}

double Guided::least_us(const Open& open) const { return expectation_.least_us(open.candidate.variant); }

std::vector<UntimedCandidate> Guided::untimed() const {
  std::vector<UntimedCandidate> candidates;
  for (const Open& open : pool_)
    candidates.push_back({open.candidate, least_us(open), open.standing == Standing::proved});
  return candidates;
}

void Guided::tell(const Candidate& candidate, const Trial& trial) {
  --waiting_;
  ++told_;
  if (!has_pool_) defaults_.tell(candidate, trial);
  if (auditing_) audit_->tell(candidate, trial);
  if (trial.ok) {
    timed_.push_back({candidate, trial.time_us, false, trial.first_half_us, trial.second_half_us});
    edges_.push_back({candidate.variant, trial.time_us, trial.mad_us, std::max(1, trial.samples)});
    expectation_.tell(candidate.variant, trial.time_us);
  }
  if (best_.tell(candidate, trial)) best_sum_us_ = best_.best_sum_us();
}

void Guided::learn() {
  if (model_ == nullptr) return;
  const plan::PathCosts paths(best_.costs());
  for (TimedCandidate& one : timed_)
    one.high = in_fast_class(paths, one.candidate.variant, one.time_us, best_sum_us_);
  // Not in the order of the answers, which noise and several devices change: a fit draws rows by their
  // places, and a search repeated from its database would ask for other kernels.
  std::sort(timed_.begin(), timed_.end(),
            [](const TimedCandidate& a, const TimedCandidate& b) { return a.candidate < b.candidate; });
  model_->fit(timed_);  // too little to learn from: every schedule counts as promising
}

/// What each open candidate takes and which are promising. A variant's best schedule was timed: the model
/// says how another one differs from it, and what it gets wrong of the variant cancels.
void Guided::predict() {
  const plan::PathCosts paths(best_.costs());
  std::vector<CandidatePrediction> predictions;
  if (model_ != nullptr && model_->ready()) {
    std::vector<Candidate> candidates;
    for (const Open& open : pool_) candidates.push_back(open.candidate);
    for (const Open& open : pool_) {
      const auto& known = best_[open.candidate.variant];
      candidates.push_back(known ? Candidate{open.candidate.variant, known->schedule} : open.candidate);
    }
    predictions = model_->predict(candidates);
  }
  for (std::size_t i = 0; i < pool_.size(); ++i) {
    const int variant = pool_[i].candidate.variant;
    const std::optional<Incumbents::Best>& known = best_[variant];
    // Without a model its default's time, as if another schedule gained nothing; a variant without one may do
    // anything.
    pool_[i].predicted_us = known ? known->time_us : 0;
    if (!predictions.empty()) {
      pool_[i].predicted_us = predictions[i].time_us;
      if (known) pool_[i].predicted_us *= known->time_us / predictions[pool_.size() + i].time_us;
    }
    pool_[i].cost_us = cost_through(paths, variant, pool_[i].predicted_us);
    pool_[i].standing = predictions.empty() || predictions[i].high ? Standing::promising : Standing::slow;
  }
}

/// Upper limit of what the best plan takes whole, among those whose whole time is known: plans of one kernel.
double Guided::incumbent_high_us() const {
  double least = std::numeric_limits<double>::infinity();
  for (const TimedEdge& edge : edges_) {
    if (segment_of(edge.variant).size() != block::kOperatorCount) continue;
    least = std::min(least, edge.median_us + 1.96 * median_error(edge.mad_us, edge.samples));
  }
  return least;
}

/// Drops what the certificate's rule proves irrelevant, and sees whether the certificate closes over what was
/// timed and what might still be: what the model left out is no part of either.
void Guided::prove() {
  const double high_us = incumbent_high_us();
  if (!std::isfinite(high_us) || !(closing_.alpha > 0)) return;
  std::vector<BoundedEdge> edges = limits(edges_);
  for (const Open& open : pool_) edges.push_back({open.candidate.variant, least_us(open)});
  const std::vector<bool> irrelevant = proved_irrelevant(edges, high_us, closing_.alpha);
  edges.resize(edges_.size());
  for (std::size_t i = 0; i < pool_.size(); ++i) {
    if (irrelevant[edges_.size() + i]) pool_[i].standing = Standing::proved;
    if (pool_[i].standing == Standing::promising)
      edges.push_back({pool_[i].candidate.variant, least_us(pool_[i])});
  }
  const auto certificate = certify_bounded(edges, high_us, closing_.alpha);
  closed_ = certificate && certificate->closed(closing_.epsilon);
}

/// After audits that failed only the slower part of the slow class stays one.
void Guided::spare_slow() {
  std::vector<std::size_t> slow;
  for (std::size_t i = 0; i < pool_.size(); ++i)
    if (pool_[i].standing == Standing::slow) slow.push_back(i);
  std::stable_sort(slow.begin(), slow.end(),
                   [&](std::size_t a, std::size_t b) { return pool_[a].cost_us < pool_[b].cost_us; });
  for (std::size_t i = 0; i + most_slow_ < slow.size(); ++i) pool_[slow[i]].standing = Standing::promising;
}

void Guided::take(std::size_t index) {
  queue_.push_back(pool_[index].candidate);
  pool_.erase(pool_.begin() + static_cast<std::ptrdiff_t>(index));
}

/// The most promising ones, and some drawn from all that might matter.
void Guided::take_round(std::vector<std::size_t> promising) {
  std::stable_sort(promising.begin(), promising.end(),
                   [&](std::size_t a, std::size_t b) { return pool_[a].cost_us < pool_[b].cost_us; });
  if (promising.size() > kRound - kDrawn) promising.resize(kRound - kDrawn);
  std::sort(promising.begin(), promising.end(), std::greater<>());  // erasing moves those behind
  for (const std::size_t index : promising) take(index);
  for (std::size_t i = 0; i < kDrawn; ++i) {
    std::vector<std::size_t> open;
    for (std::size_t j = 0; j < pool_.size(); ++j)
      if (pool_[j].standing != Standing::proved) open.push_back(j);
    if (open.empty()) break;
    take(open[random_.below(open.size())]);
  }
}

void Guided::start_audit() {
  std::vector<LeftOut> left_out;
  for (const Open& open : pool_)
    if (open.standing == Standing::slow) left_out.push_back({open.candidate, open.predicted_us});
  done_ = left_out.empty();
  if (done_) return;
  audit_.emplace(left_out, best_.costs(), random_.next());
  ++audits_.audits;
  auditing_ = true;
  for (const LeftOut& drawn : audit_->drawn()) {
    const auto place = std::find_if(pool_.begin(), pool_.end(),
                                    [&](const Open& open) { return open.candidate == drawn.candidate; });
    take(static_cast<std::size_t>(place - pool_.begin()));
  }
}

/// False: the rounds go on.
bool Guided::end_audit() {
  auditing_ = false;
  const PruningEstimate estimate = audit_->estimate();
  if (estimate.passed()) return true;
  audits_.audited += estimate.audited;
  audits_.losses += estimate.losses;
  ++audits_.widened;
  most_slow_ = static_cast<std::size_t>(estimate.left_out - estimate.audited) / 2;
  audit_.reset();
  audits_.last = estimate;
  return false;
}

std::optional<PruningReport> Guided::pruning() const {
  if (audits_.audits == 0) return std::nullopt;
  PruningReport report = audits_;
  report.complete = !audit_ || audit_->complete();
  report.settled = done_;
  if (!audit_) return report;
  report.last = audit_->estimate();
  report.audited += report.last.audited;
  report.losses += report.last.losses;
  return report;
}

void Guided::start_round() {
  if (auditing_) {
    done_ = end_audit();
    if (done_) return;
  }
  learn();
  predict();
  spare_slow();
  prove();
  std::vector<std::size_t> promising;
  for (std::size_t i = 0; i < pool_.size(); ++i)
    if (pool_[i].standing == Standing::promising) promising.push_back(i);
  if (promising.empty() || closed_) {
    start_audit();
  } else {
    take_round(std::move(promising));
  }
  random_.shuffle(queue_);
}

void Guided::start_rounds() {
  has_pool_ = true;
  for (const Candidate& candidate : defaults_.ask(std::numeric_limits<int>::max()))
    pool_.push_back({candidate});
}

std::vector<Candidate> Guided::ask(int limit) {
  if (!has_pool_) {
    std::vector<Candidate> candidates = defaults_.ask(limit);
    if (!defaults_.in_last_phase()) {
      waiting_ += static_cast<int>(candidates.size());
      return candidates;
    }
    for (const Candidate& candidate : candidates) pool_.push_back({candidate});
    start_rounds();
  }
  if (queue_.empty() && waiting_ == 0 && !done_) start_round();
  std::vector<Candidate> candidates = take_last(queue_, limit);
  waiting_ += static_cast<int>(candidates.size());
  return candidates;
}

}  // namespace fusetune::search
