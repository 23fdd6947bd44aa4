// The two stages of `guided`: segments, each alone, then plans whole, chosen by a model of what a whole plan
// takes over the sum of its segments. To command and report they are one search.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/plan_search.h"
#include "cli/segment_search.h"
#include "search/plan_refinement.h"

namespace fusetune::cli {

class GuidedSearch : public Searcher {
 public:
  GuidedSearch(measure::Session& session, store::TuningStore& store, std::int64_t run,
               const SearchSettings& settings, std::unique_ptr<search::Strategy> segments);

  /// Where --trials ends the segments there is no second stage; where --time-limit does, it still has
  /// search::kPlanShare of that limit.
  std::string run(SearchProgress& progress) override;
  const SearchCounts& counts() const override { return plans_ == nullptr ? segments_.counts() : counts_; }
  std::string summary() const override;
  int timed_count() const override { return segments_.timed_count(); }
  double seconds() const override;
  std::vector<search::Finalist> finalists() const override;
  std::span<const search::TimedEdge> edges() const override { return segments_.edges(); }
  std::optional<lower::AnySchedule> schedule(int variant) const override {
    return segments_.schedule(variant);
  }
  Untimed untimed() const override { return segments_.untimed(); }
  std::vector<search::UntimedCandidate> untimed_kernels() const override {
    return segments_.untimed_kernels();
  }
  std::optional<search::PruningReport> pruning() const override { return segments_.pruning(); }
  std::span<const search::PriorTest> prior_tests() const override { return segments_.prior_tests(); }
  std::optional<PlanCounts> plan_counts() const override;

 private:
  search::StopConditions stop_of_plans() const;
  std::string run_plans(SearchProgress& progress);
  void add_plan_counts();

  measure::Session& session_;
  store::TuningStore& store_;
  std::int64_t run_;
  SearchSettings settings_;
  SegmentSearch segments_;
  double segment_seconds_ = 0;
  SearchSettings plan_settings_;
  std::unique_ptr<PlanSearch> plans_;             // null: the first stage
  search::PlanRefinement* refinement_ = nullptr;  // owned by plans_
  SearchCounts counts_;                           // of both
};

}  // namespace fusetune::cli
