// A search over whole plans: ask -> generate -> compile -> measure -> store -> tell. Each variant has one
// schedule throughout, so that times of plans are comparable.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/batch_measuring.h"
#include "cli/counted_clock.h"
#include "cli/plan_job.h"
#include "cli/searcher.h"
#include "measure/session.h"
#include "search/plan_strategy.h"
#include "search/stop.h"
#include "store/tuning_store.h"

namespace fusetune::cli {

/// One for each variant; nullopt: it cannot run on this problem.
using VariantSchedules = std::vector<std::optional<lower::AnySchedule>>;

/// The fastest recorded schedule of each variant, else the first of the space with the tile that was tuned
/// for its costliest GEMM.
VariantSchedules choose_schedules(const measure::Session& session, const store::TuningStore& store,
                                  const SearchSettings& settings, const search::Incumbents& tuned);

/// The plans whose variants all have a schedule.
std::vector<plan::FusionPlan> runnable_plans(const VariantSchedules& schedules);

class PlanSearch : public Searcher {
 public:
  PlanSearch(measure::Session& session, store::TuningStore& store, std::int64_t run,
             const SearchSettings& settings, VariantSchedules schedules,
             std::unique_ptr<search::PlanStrategy> strategy);

  std::string run(SearchProgress& progress) override;
  const SearchCounts& counts() const override { return counts_; }
  std::string summary() const override;
  int timed_count() const override { return static_cast<int>(timed_.size()); }
  double seconds() const override { return clock_.seconds(); }
  std::vector<search::Finalist> finalists() const override;
  Untimed untimed() const override;
  std::optional<PlanCounts> plan_counts() const override;
  std::optional<lower::AnySchedule> schedule(int variant) const override;

  /// Those that ran right, in the order they were told.
  const std::vector<search::TimedPlan>& timed() const { return timed_; }

 private:
  struct Job {
    PlanJob job;
    bool tried = false;     // in this run: it was noisy
    bool compared = false;  // its only time is from a final comparison, taken at another speed of the machine
    bool held = false;      // another search was measuring it
  };

  std::vector<Job> prepare(const std::vector<search::PlanCandidate>& candidates);
  bool answer_from_store(Job& entry);
  void compile(std::vector<Job>& jobs, SearchProgress& progress);
  void measure(std::vector<Job> jobs, SearchProgress& progress);
  Turn claim(Job& job, bool wait);
  void finish(Job job, measure::Measurement measurement);
  void tell(const store::PlanRecord& record, const plan::FusionPlan& plan);
  void show(SearchProgress& progress, const std::string& doing) const;

  measure::Session& session_;
  store::TuningStore& store_;
  std::int64_t run_;
  const SearchSettings& settings_;
  VariantSchedules schedules_;
  std::unique_ptr<search::PlanStrategy> strategy_;
  search::StopRule stop_;
  SearchCounts counts_;
  std::vector<search::TimedPlan> timed_;
  std::vector<Job> noisy_;  // measured again when the strategy waits
  double best_us_;
  CountedClock clock_;
};

}  // namespace fusetune::cli
