#include "cli/guided_search.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace fusetune::cli {

GuidedSearch::GuidedSearch(measure::Session& session, store::TuningStore& store, std::int64_t run,
                           const SearchSettings& settings, std::unique_ptr<search::Strategy> segments)
    : session_(session),
      store_(store),
      run_(run),
      settings_(settings),
      segments_(session, store, run, settings_, std::move(segments)) {}

search::StopConditions GuidedSearch::stop_of_plans() const {
  search::StopConditions stop = settings_.stop;
  stop.early_stop.reset();  // its rounds are few: that is for the segments
  stop.spent_trials = segments_.counts().measured;
  stop.spent_s = segment_seconds_;
  if (stop.seconds) stop.spent_s = std::min(stop.spent_s, (1 - search::kPlanShare) * *stop.seconds);
  return stop;
}

std::string GuidedSearch::run(SearchProgress& progress) {
  std::string stopped = segments_.run(progress);
  segment_seconds_ = segments_.seconds();
  plan_settings_ = settings_;
  plan_settings_.stop = stop_of_plans();
  if (search::StopRule(plan_settings_.stop).trials_left() == 0) return stopped;
  const std::string stopped_plans = run_plans(progress);
  return stopped.empty() ? stopped_plans : stopped;
}

std::string GuidedSearch::run_plans(SearchProgress& progress) {
  auto refinement = std::make_unique<search::PlanRefinement>(
      segments_.best().costs(), settings_.finalists, session_.problem().seed,
      search::PlanClosing(segments_.edges(), settings_.epsilon));
  if (refinement->expected() == 0) return {};  // no complete plan has times
  refinement_ = refinement.get();
  VariantSchedules schedules;
  for (int variant = 0; variant < plan::kVariantCount; ++variant) schedules.push_back(schedule(variant));
  plans_ = std::make_unique<PlanSearch>(session_, store_, run_, plan_settings_, std::move(schedules),
                                        std::move(refinement));
  try {
    std::string stopped = plans_->run(progress);
    add_plan_counts();
    return stopped;
  } catch (...) {  // an interrupted search reports what it did
    add_plan_counts();
    throw;
  }
}

void GuidedSearch::add_plan_counts() {
  counts_ = segments_.counts();
  counts_.add(plans_->counts());
}

double GuidedSearch::seconds() const {
  return plans_ == nullptr ? segments_.seconds() : segment_seconds_ + plans_->seconds();
}

std::string GuidedSearch::summary() const {
  const auto plans = plan_counts();
  if (!plans) return segments_.summary();
  return fmt::format("{}, {} plan{} timed whole{}, {} predicted from them", segments_.summary(), plans->timed,
                     plans->timed == 1 ? "" : "s",
                     refinement_->closed() ? " until the certificate closed" : "", plans->predicted);
}

std::vector<search::Finalist> GuidedSearch::finalists() const {
  return refinement_ == nullptr ? segments_.finalists() : refinement_->finalists();
}

std::optional<PlanCounts> GuidedSearch::plan_counts() const {
  if (refinement_ == nullptr) return std::nullopt;
  return PlanCounts{plans_->counts().candidates(), refinement_->timed(), refinement_->predicted()};
}

}  // namespace fusetune::cli
