#include "search/guided.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include "search/fast_class.h"
#include "search/queue.h"
#include "search/tile_tuning.h"

namespace fusetune::search {
namespace {

constexpr std::size_t kRound = 16, kDrawn = 2;
/// Draws of all open kernels' times: a chance of 5 % is then uncertain by 2 %.
constexpr int kDraws = 128;
/// A plan in a draw is worth a vote for its kernels where it is so much faster than the best. Less is noise.
constexpr double kVote = 0.003;
/// The rounds end when no more draws have a plan that is faster by PruningEstimate::kLoss.
constexpr double kEnough = 0.05;
/// A kernel that misses the best plan by so many deviations is not drawn: joint draws cost n^3.
constexpr double kHopeless = 4;
/// How close to the shortest a way is that is the shortest, but for rounding.
constexpr double kSameWay = 1 + 1e-12;

const plan::Segment& segment_of(int variant) {
  return plan::all_variants()[static_cast<std::size_t>(variant)].segment;
}

}  // namespace

Guided::Guided(const Space& space, SegmentModel* model, std::uint64_t seed, const Closing& closing,
               Priors priors)
    : expectation_(space.work, std::move(priors)),
      opening_(space, seed),
      model_(model),
      random_(seed),
      closing_(closing),
      best_sum_us_(std::numeric_limits<double>::infinity()) {}

/// Before the first fit all: what will be pruned nobody knows.
int Guided::expected() const {
  if (!has_pool_) return opening_.expected();
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
  if (!has_pool_) return opening_.left();
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
  if (!has_pool_) opening_.tell(candidate, trial);
  if (auditing_) audit_->tell(candidate, trial);
  if (trial.ok) {
    const double error_us = median_error(trial.mad_us, std::max(1, trial.samples));
    timed_.push_back({candidate, trial.time_us, false, trial.first_half_us, trial.second_half_us, error_us});
    edges_.push_back(edge_of(candidate.variant, trial));
    expectation_.tell(candidate.variant, trial.time_us);
  }
  if (best_.tell(candidate, trial)) best_sum_us_ = best_.best_sum_us();
}

/// What a prior that passed its test expects of every kernel, over what it expects of its operators alone.
void Guided::ask_prior() {
  expectation_.test_priors(best_);
  std::vector<Candidate> candidates;
  for (int op = 0; op < block::kOperatorCount; ++op) {
    const auto& known = best_[lone_variant(op)];
    if (!known || !expectation_.by_prior()) return;
    candidates.push_back({lone_variant(op), known->schedule});
  }
  for (const TimedCandidate& one : timed_) candidates.push_back(one.candidate);
  for (const Open& open : pool_) candidates.push_back(open.candidate);
  const std::vector<double> us = expectation_.by_prior_us(candidates);
  for (std::size_t i = block::kOperatorCount; i < candidates.size(); ++i) {
    const plan::Segment& segment = segment_of(candidates[i].variant);
    const double alone_us = std::accumulate(us.begin() + segment.first, us.begin() + segment.last + 1, 0.0);
    if (us[i] > 0 && std::isfinite(us[i] / alone_us)) prior_shares_[candidates[i]] = us[i] / alone_us;
  }
}

KernelSurrogate::Kernel Guided::kernel_of(const Candidate& candidate) const {
  const auto share = prior_shares_.find(candidate);
  return {candidate, share == prior_shares_.end() ? 1 : share->second};
}

void Guided::fit_surrogate() {
  KernelSurrogate::OperatorTimes alone_us{};
  for (int op = 0; op < block::kOperatorCount; ++op) {
    const auto& known = best_[lone_variant(op)];
    if (!known) return;
    alone_us[static_cast<std::size_t>(op)] = known->time_us;
  }
  std::vector<KernelSurrogate::Sample> samples;
  for (const TimedCandidate& one : timed_)
    samples.push_back({kernel_of(one.candidate), one.time_us, one.error_us});
  surrogate_.emplace(alone_us);
  surrogate_->fit(samples);
}

void Guided::learn() {
  const plan::PathCosts paths(best_.costs());
  for (TimedCandidate& one : timed_)
    one.high = in_fast_class(paths, one.candidate.variant, one.time_us, best_sum_us_);
  // Not in the order of the answers, which noise and several devices change: a fit draws rows by their
  // places, and a search repeated from its database would ask for other kernels.
  std::sort(timed_.begin(), timed_.end(),
            [](const TimedCandidate& a, const TimedCandidate& b) { return a.candidate < b.candidate; });
  if (model_ != nullptr) model_->fit(timed_);  // too little to learn from: every schedule counts as promising
  fit_surrogate();
}

void Guided::classify() {
  for (Open& open : pool_) open.standing = Standing::promising;
  if (model_ == nullptr || !model_->ready()) return;
  std::vector<Candidate> candidates;
  for (const Open& open : pool_) candidates.push_back(open.candidate);
  const std::vector<bool> high = model_->are_high(candidates);
  for (std::size_t i = 0; i < pool_.size(); ++i)
    if (!high[i]) pool_[i].standing = Standing::slow;
}

/// Without a surrogate a kernel takes what its variant's best does, as if another schedule gained nothing; a
/// variant without one may do anything.
void Guided::predict() {
  const plan::PathCosts paths(best_.costs());
  for (Open& open : pool_) {
    const std::optional<Incumbents::Best>& known = best_[open.candidate.variant];
    open.predicted_us = known ? known->time_us : 0;
    open.deviation_us = 0;
    if (surrogate_) {
      const auto [mean_us, deviation_us] = surrogate_->believe(kernel_of(open.candidate));
      open.predicted_us = std::max(mean_us, least_us(open));
      open.deviation_us = widening_ * deviation_us;
    }
    open.cost_us = cost_through(paths, open.candidate.variant, open.predicted_us);
  }
}

/// Draws times of all promising kernels together: which of them are on the way of a better plan, and in how
/// many draws there is one worth finding. `widening`: how much larger deviations are than the surrogate says.
void Guided::vote(double widening) {
  chance_ = 0;
  std::vector<std::size_t> drawn;
  std::vector<KernelSurrogate::Kernel> kernels;
  for (std::size_t i = 0; i < pool_.size(); ++i) {
    pool_[i].votes = 0;
    const bool hopeless = pool_[i].cost_us - kHopeless * pool_[i].deviation_us > best_sum_us_;
    if (pool_[i].standing != Standing::promising || hopeless) continue;
    drawn.push_back(i);
    kernels.push_back(kernel_of(pool_[i].candidate));
  }
  for (const std::vector<double>& times_us : surrogate_->draw(kernels, kDraws, widening, random_)) {
    plan::VariantCosts costs = best_.costs();
    for (std::size_t i = 0; i < drawn.size(); ++i) {
      double& cost = costs[static_cast<std::size_t>(pool_[drawn[i]].candidate.variant)];
      cost = std::min(cost, std::max(times_us[i], least_us(pool_[drawn[i]])));
    }
    const plan::PathCosts paths(costs);
    const double sum_us = paths.from(0);
    if (sum_us * (1 + PruningEstimate::kLoss) < best_sum_us_) chance_ += 1.0 / kDraws;
    if (sum_us * (1 + kVote) > best_sum_us_) continue;
    for (std::size_t i = 0; i < drawn.size(); ++i) {
      Open& open = pool_[drawn[i]];
      const double us = std::max(times_us[i], least_us(open));
      if (cost_through(paths, open.candidate.variant, us) <= kSameWay * sum_us) ++open.votes;
    }
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

/// Those that most draws want, and where nothing is left out those that no draw wants behind them; and some
/// drawn from all that might matter.
void Guided::take_round(std::vector<std::size_t> promising) {
  if (surrogate_ && model_ != nullptr)
    std::erase_if(promising, [&](std::size_t i) { return pool_[i].votes == 0; });
  std::stable_sort(promising.begin(), promising.end(), [&](std::size_t a, std::size_t b) {
    return pool_[a].votes != pool_[b].votes ? pool_[a].votes > pool_[b].votes
                                            : pool_[a].cost_us < pool_[b].cost_us;
  });
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
    if (open.standing == Standing::slow)
      left_out.push_back({open.candidate, open.predicted_us, open.deviation_us});
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

/// How likely those left out hold a better plan, by joint draws that know what was audited, and are as much
/// wider as the audit found them wrong.
void Guided::settle_audit() {
  const std::optional<double> error_size = audit_->error_size();
  learn();
  if (!surrogate_ || !error_size) return;
  std::vector<std::size_t> left_out;
  for (std::size_t i = 0; i < pool_.size(); ++i)
    if (pool_[i].standing == Standing::slow) left_out.push_back(i);
  for (const std::size_t index : left_out) pool_[index].standing = Standing::promising;
  predict();
  const double widening = std::max(1.0, widening_ * *error_size);
  vote(widening);
  audit_->settle(chance_);
  for (const std::size_t index : left_out) pool_[index].standing = Standing::slow;
  if (!audit_->estimate().passed()) widening_ = widening;
}

/// False: the rounds go on.
bool Guided::end_audit() {
  auditing_ = false;
  settle_audit();
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
  } else {
    learn();  // the end of an audit has
  }
  classify();
  predict();
  spare_slow();
  prove();
  if (surrogate_) vote(widening_);
  std::vector<std::size_t> promising;
  for (std::size_t i = 0; i < pool_.size(); ++i)
    if (pool_[i].standing == Standing::promising) promising.push_back(i);
  const bool enough = model_ != nullptr && surrogate_ && chance_ <= kEnough;
  if (promising.empty() || enough || closed_) {
    if (enough)
      for (const std::size_t index : promising) pool_[index].standing = Standing::slow;
    start_audit();
  } else {
    take_round(std::move(promising));
  }
  random_.shuffle(queue_);
}

void Guided::start_rounds(const std::vector<Candidate>& rest) {
  has_pool_ = true;
  for (const Candidate& candidate : rest) pool_.push_back({candidate});
  ask_prior();
}

std::vector<Candidate> Guided::ask(int limit) {
  if (!has_pool_) {
    auto rest = opening_.rest_after_references();
    if (!rest) {
      std::vector<Candidate> candidates = opening_.ask(limit);
      waiting_ += static_cast<int>(candidates.size());
      return candidates;
    }
    start_rounds(*rest);
  }
  if (queue_.empty() && waiting_ == 0 && !done_) start_round();
  std::vector<Candidate> candidates = take_last(queue_, limit);
  waiting_ += static_cast<int>(candidates.size());
  return candidates;
}

}  // namespace fusetune::search
