// A search over segments: ask -> generate -> compile -> measure -> store -> tell. Plans are compared by the
// sum of their segments' times.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/batch_measuring.h"
#include "cli/counted_clock.h"
#include "cli/searcher.h"
#include "codegen/any_kernel.h"
#include "measure/session.h"
#include "search/segment_model.h"
#include "search/stop.h"
#include "search/strategy.h"
#include "store/tuning_store.h"

namespace fusetune::cli {

/// A strategy over segments, and what it learns with: the model must outlive it.
struct SegmentStrategy {
  std::unique_ptr<search::FittedSegmentModel> model;
  std::unique_ptr<search::Strategy> strategy;
};
/// As a search with these settings begins it.
SegmentStrategy make_segment_strategy(const search::StrategyInfo& info, const measure::Session& session,
                                      const SearchSettings& settings);

class SegmentSearch : public Searcher {
 public:
  SegmentSearch(measure::Session& session, store::TuningStore& store, std::int64_t run,
                const SearchSettings& settings, std::unique_ptr<search::Strategy> strategy);

  std::string run(SearchProgress& progress) override;
  const SearchCounts& counts() const override { return counts_; }
  std::string summary() const override;
  int timed_count() const override { return best_.count(); }
  double seconds() const override { return clock_.seconds(); }
  std::vector<search::Finalist> finalists() const override;
  std::span<const search::TimedEdge> edges() const override { return edges_; }
  Untimed untimed() const override;
  std::vector<search::UntimedCandidate> untimed_kernels() const override { return strategy_->untimed(); }
  std::optional<search::PruningReport> pruning() const override { return strategy_->pruning(); }
  std::span<const search::PriorTest> prior_tests() const override { return strategy_->prior_tests(); }
  std::optional<lower::AnySchedule> schedule(int variant) const override;

  const search::Incumbents& best() const { return best_; }

 private:
  struct Job {
    search::Candidate candidate;
    codegen::AnyKernel source;
    store::TuningRecord record;
    backend::CompiledKernel kernel;
    bool tried = false;  // in this run: it was noisy
    bool retry = false;  // by an earlier run, which did not get a lasting answer
    bool held = false;   // another search was measuring it
  };

  bool answer_from_store(Job& job);
  std::vector<Job> prepare(const std::vector<search::Candidate>& candidates);
  std::vector<Job> compile(std::vector<Job> jobs, SearchProgress& progress);
  void measure(std::vector<Job> jobs, SearchProgress& progress);
  Turn claim(Job& job, bool wait);
  void finish(Job job, measure::Measurement measurement);
  void show(SearchProgress& progress, const std::string& doing) const;
  void tell(const store::TuningRecord& record, const search::Candidate& candidate);
  codegen::AnyKernel generate(int variant, const lower::AnySchedule& schedule) const;
  store::TuningRecord record_of(const search::Candidate& candidate, const codegen::AnyKernel& source) const;

  measure::Session& session_;
  store::TuningStore& store_;
  std::int64_t run_;
  const SearchSettings& settings_;
  std::unique_ptr<search::Strategy> strategy_;
  lower::Target target_;
  search::StopRule stop_;
  search::Incumbents best_;
  std::vector<search::TimedEdge> edges_;
  SearchCounts counts_;
  std::vector<Job> noisy_;  // measured again when the strategy waits
  double best_sum_us_;
  CountedClock clock_;
};

}  // namespace fusetune::cli
