// Every variant first, then only the schedules that could matter.
//
// The first four phases are those of exhaustive.h. Before the fourth the priors are tested on what was timed,
// and it takes the variants in the order of what is then expected (expectation.h) of plans through them.
// After it every variant has a time with its default schedule and the tile tuned for it. The other schedules
// are then ranked by the cost of the shortest plan through them, with the time that a model predicts that
// knows this search only; those of the slow class are not timed, nor those that the certificate's rule proves
// irrelevant. Rounds of sixteen, a quarter of them drawn from all that is left, so that a wrong model meets
// schedules it did not choose; the model is fitted again after each. The rounds end when nothing promising is
// left, or when the certificate closes.
//
// Then part of what the model pruned is timed all the same (pruning_audit.h). Where that shows that it
// should not have been left out, the slow class is halved, those stay in it that are predicted slowest, and
// the rounds go on. So a model that is wrong throughout ends with everything timed.
#pragma once

#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "search/certificate.h"
#include "search/exhaustive.h"
#include "search/expectation.h"
#include "search/segment_model.h"

namespace fusetune::search {

class Guided : public Strategy {
 public:
  /// Without a model it times all that the shortest path could gain from, in that order.
  Guided(const Space& space, SegmentModel* model, std::uint64_t seed, const Closing& closing = {},
         Priors priors = {});
  Guided(const Guided&) = delete;  // its order refers to itself
  Guided& operator=(const Guided&) = delete;
  std::vector<Candidate> ask(int limit) override;
  void tell(const Candidate& candidate, const Trial& trial) override;
  int expected() const override;
  std::int64_t pruned() const override;
  std::int64_t left() const override;
  std::vector<UntimedCandidate> untimed() const override;
  std::optional<PruningReport> pruning() const override;
  std::span<const PriorTest> prior_tests() const override { return expectation_.tests(); }
  bool closed() const override { return closed_; }

 private:
  enum class Standing { promising, slow, proved };
  /// A schedule beyond the defaults that was not asked for, as the last fit sees it.
  struct Open {
    Candidate candidate;
    Standing standing = Standing::promising;
    double predicted_us = 0;
    double cost_us = 0;  // of the shortest plan through it, so predicted
  };

  double expected_cost(const Candidate& candidate);
  void start_rounds();
  void start_round();
  void learn();
  void predict();
  void prove();
  void spare_slow();
  void start_audit();
  bool end_audit();
  void take_round(std::vector<std::size_t> promising);
  void take(std::size_t index);
  std::int64_t count(Standing standing) const;
  double least_us(const Open& open) const;
  double incumbent_high_us() const;

  Expectation expectation_;
  Exhaustive defaults_;
  SegmentModel* model_;
  RandomSource random_;
  Closing closing_;
  std::vector<TimedCandidate> timed_;
  std::vector<TimedEdge> edges_;
  std::vector<Open> pool_;
  std::vector<Candidate> queue_;  // of this round, next one last
  Incumbents best_;
  double best_sum_us_;
  std::optional<PruningAudit> audit_;                                // the last one
  PruningReport audits_;                                             // those before it
  std::size_t most_slow_ = std::numeric_limits<std::size_t>::max();  // halved where an audit failed
  int told_ = 0, waiting_ = 0;
  bool has_pool_ = false, auditing_ = false, closed_ = false, done_ = false;
};

}  // namespace fusetune::search
