#include "search/mask.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "base/error.h"
#include "search/queue.h"

namespace fusetune::search {
namespace {

/// Plans of the first sample where there is no budget, and its share of a budget.
constexpr std::int64_t kSample = 64, kLeastSample = 8;
constexpr double kSampleShare = 0.5;
/// Of a later round.
constexpr std::size_t kRound = 16;
constexpr std::size_t kUniformShare = 8;  // one in so many
constexpr int kIdleRounds = 3;

std::size_t first_sample(std::int64_t budget) {
  const auto share = static_cast<std::int64_t>(kSampleShare * static_cast<double>(budget));
  return static_cast<std::size_t>(budget > 0 ? std::clamp(share, kLeastSample, kSample) : kSample);
}

}  // namespace

MaskPipeline::MaskPipeline(const PlanSpace& space, std::uint64_t seed)
    : space_(space),
      random_(seed),
      order_(space.plans.begin(), space.plans.end()),
      best_us_(std::numeric_limits<double>::infinity()),
      best_of_last_us_(best_us_) {
  if (space.model == nullptr) throw base::InternalError("the mask pipeline works with a model");
  random_.shuffle(order_);
  sample(first_sample(space.budget));
}

/// Draws plans that were not asked for from the whole space.
void MaskPipeline::sample(std::size_t count) {
  for (; count > 0 && drawn_ < order_.size(); ++drawn_) {
    const plan::FusionPlan& plan = order_[drawn_];
    uniform_.insert(plan);  // drawn: it is one of the sample, whoever asked for it first
    if (!asked_.insert(plan).second) continue;
    queue_.push_back({plan, true});
    --count;
  }
}

std::vector<plan::FusionPlan> MaskPipeline::unasked() const {
  std::vector<plan::FusionPlan> plans;
  std::copy_if(space_.plans.begin(), space_.plans.end(), std::back_inserter(plans),
               [&](const plan::FusionPlan& plan) { return !asked_.contains(plan); });
  return plans;
}

/// The plans of the fast class that should be fastest.
void MaskPipeline::exploit(std::size_t count) {
  const std::vector<plan::FusionPlan> plans = unasked();
  const std::vector<PlanPrediction> predictions = space_.model->predict(plans);
  std::vector<std::size_t> high;
  slow_.clear();
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (predictions[i].high) {
      high.push_back(i);
    } else {
      slow_.push_back(plans[i]);
    }
  }
  // A class of nobody else says nothing about the rest: the regressor decides then.
  if (high.empty() && idle_rounds_ == 0)
    for (std::size_t i = 0; i < plans.size(); ++i) high.push_back(i);
  std::stable_sort(high.begin(), high.end(), [&](std::size_t a, std::size_t b) {
    return predictions[a].time_us < predictions[b].time_us;
  });
  if (high.size() > count) high.resize(count);
  for (const std::size_t i : high) {
    asked_.insert(plans[i]);
    queue_.push_back({plans[i], false});
  }
}

std::int64_t MaskPipeline::pruned() const {
  return std::count_if(slow_.begin(), slow_.end(),
                       [&](const plan::FusionPlan& plan) { return !asked_.contains(plan); });
}

std::int64_t MaskPipeline::predicted() const {
  return space_.model->ready() ? static_cast<std::int64_t>(space_.plans.size() - timed_.size()) : 0;
}

void MaskPipeline::start_round() {
  idle_rounds_ = best_us_ < best_of_last_us_ ? 0 : idle_rounds_ + 1;
  best_of_last_us_ = best_us_;
  for (TimedPlan& one : timed_) one.uniform = uniform_.contains(one.plan);
  const bool learned = space_.model->fit(timed_).empty() || space_.model->ready();
  if (!learned) {  // too few plans, or none ran: more of them
    sample(kRound);
  } else if (idle_rounds_ < kIdleRounds) {
    exploit(kRound - kRound / kUniformShare);
    if (!queue_.empty()) sample(kRound / kUniformShare);
  }
  done_ = queue_.empty();
  random_.shuffle(queue_);
}

std::vector<PlanCandidate> MaskPipeline::ask(int limit) {
  if (queue_.empty() && waiting_ == 0 && !done_) start_round();
  std::vector<PlanCandidate> candidates = take_last(queue_, limit);
  waiting_ += static_cast<int>(candidates.size());
  return candidates;
}

void MaskPipeline::tell(const plan::FusionPlan& plan, const Trial& trial) {
  --waiting_;
  if (!trial.ok) return;
  // start_round() says which are uniform.
  timed_.push_back({plan, trial.time_us, false, trial.first_half_us, trial.second_half_us});
  best_us_ = std::min(best_us_, trial.time_us);
}

}  // namespace fusetune::search
