// The kernels that could matter, by what those timed say of the others.
//
// The first three phases are those of exhaustive.h: every operator alone, the tiles of the lone GEMMs, the
// reference plans. The priors are tested on these. All other candidates, each variant with each of its
// schedules, are then a pool of which rounds of sixteen are timed. Before each round
//
//   - a classifier is fitted, and what it puts into the slow class is left out;
//   - the certificate's rule drops what it proves to be in no plan worth having;
//   - a Gaussian process over what operators take in a kernel (kernel_surrogate.h) is fitted, with a trusted
//     prior's word as what it expects, and draws possible times of all others together.
//
// Those are timed that are most often on the shortest way of a draw that is better than the best known, and a
// few drawn from all that is left, so that a wrong model meets kernels it did not choose. The rounds end when
// hardly any draw has a plan that is worth finding, or when the certificate closes.
//
// Then part of what was left out is timed all the same (pruning_audit.h). Where that shows that it should not
// have been left out, the slow class is halved, those stay in it that are predicted slowest, the draws are as
// much wider as the audit found them wrong, and the rounds go on.
#pragma once

#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "search/certificate.h"
#include "search/exhaustive.h"
#include "search/expectation.h"
#include "search/kernel_surrogate.h"
#include "search/segment_model.h"

namespace fusetune::search {

class Guided : public Strategy {
 public:
  /// Without a model it leaves nothing out that is not proved irrelevant.
  Guided(const Space& space, SegmentModel* model, std::uint64_t seed, const Closing& closing = {},
         Priors priors = {});
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
  /// A candidate that was not asked for, as the last fit sees it.
  struct Open {
    Candidate candidate;
    Standing standing = Standing::promising;
    double predicted_us = 0, deviation_us = 0;
    double cost_us = 0;  // of the shortest plan through it, so predicted
    int votes = 0;       // draws in which it is on the way of a better plan
  };

  void start_rounds(const std::vector<Candidate>& rest);
  void start_round();
  void ask_prior();
  KernelSurrogate::Kernel kernel_of(const Candidate& candidate) const;
  void learn();
  void fit_surrogate();
  void classify();
  void predict();
  void vote(double widening);
  void prove();
  void spare_slow();
  void start_audit();
  void settle_audit();
  bool end_audit();
  void take_round(std::vector<std::size_t> promising);
  void take(std::size_t index);
  std::int64_t count(Standing standing) const;
  double least_us(const Open& open) const;
  double incumbent_high_us() const;

  Expectation expectation_;
  Exhaustive opening_;
  SegmentModel* model_;
  RandomSource random_;
  Closing closing_;
  std::vector<TimedCandidate> timed_;
  std::vector<TimedEdge> edges_;
  std::map<Candidate, double> prior_shares_;  // of what operators take alone; empty: no prior is trusted
  std::vector<Open> pool_;
  std::vector<Candidate> queue_;  // of this round, next one last
  Incumbents best_;
  double best_sum_us_;
  std::optional<KernelSurrogate> surrogate_;  // none: an operator has no time alone
  double widening_ = 1;                       // of its deviations: grows where an audit failed
  double chance_ = 1;                         // of a plan worth finding, by its draws
  std::optional<PruningAudit> audit_;         // the last one
  PruningReport audits_;                      // those before it
  std::size_t most_slow_ = std::numeric_limits<std::size_t>::max();  // halved where an audit failed
  int told_ = 0, waiting_ = 0;
  bool has_pool_ = false, auditing_ = false, closed_ = false, done_ = false;
};

}  // namespace fusetune::search
