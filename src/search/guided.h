// Every variant first, then only the schedules that could matter.
//
// The first four phases are those of exhaustive.h: after them every variant has a time with its default
// schedule and the tile tuned for it. The other schedules are then ranked by the cost of the shortest plan
// through them, with the time that a model predicts; those of the slow class are not timed. Rounds of
// sixteen, a quarter of them drawn from all that is left, so that a wrong model meets schedules it did not
// choose; the model is fitted again after each. It ends when nothing promising is left, or when two rounds in
// a row found no faster plan.
#pragma once

#include <memory>
#include <vector>

#include "search/exhaustive.h"
#include "search/segment_model.h"

namespace fusetune::search {

class Guided : public Strategy {
 public:
  /// Without a model it times all that the shortest path could gain from, in that order.
  Guided(const Space& space, SegmentModel* model, std::uint64_t seed);
  std::vector<Candidate> ask(int limit) override;
  void tell(const Candidate& candidate, const Trial& trial) override;
  int expected() const override;
  std::int64_t pruned() const override;
  std::int64_t left() const override;

 private:
  void start_round();
  void learn();
  std::vector<double> costs_through() const;
  void take(std::size_t index);

  Exhaustive defaults_;
  SegmentModel* model_;
  RandomSource random_;
  std::vector<TimedCandidate> timed_;
  std::vector<Candidate> pool_;   // schedules beyond the defaults, not yet asked for
  std::vector<bool> slow_;        // by place in pool_: the model's class at the last fit
  std::vector<Candidate> queue_;  // of this round, next one last
  Incumbents best_;
  double best_sum_us_, best_of_last_us_;
  int told_ = 0, waiting_ = 0;
  int idle_rounds_ = 0;
  bool has_pool_ = false, done_ = false;
};

}  // namespace fusetune::search
