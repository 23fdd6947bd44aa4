// Was what the model left out worth leaving out? A random part of it is measured all the same, and says.
//
// Drawn once the rounds are over, without looking at any prediction, so that the sample speaks for the rest.
// Two figures come from it. How many of those left out would make the best plan more than a percent faster,
// each by itself: an exact limit, without any assumption on the model. And how likely it is that those left
// out, together, hide such a plan: an estimate, which needs the model to be as wrong of the rest as it is of
// those drawn. The first alone could never be good news: where one of 200 matters, 25 drawn most often miss
// it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "search/random_source.h"
#include "search/space.h"

namespace fusetune::search {

/// A candidate that nobody timed.
struct LeftOut {
  Candidate candidate;
  double predicted_us = 0;  // 0: it may take any time
  double deviation_us = 0;  // standard deviation of the prediction; 0: not known
};

/// What an audit says.
struct PruningEstimate {
  std::int64_t left_out = 0;  // when it was drawn
  std::int64_t audited = 0;   // of these measured, failed ones included
  std::int64_t losses = 0;    // of these such that the best plan becomes more than kLoss faster
  /// At most this share of those left out are losses, with a probability of 95 %.
  double share_at_most = 1;
  /// Estimated probability that a plan over the best kernels and any of those left out and not audited is
  /// more than kLoss faster than the best one is now; nullopt: too few were audited to say.
  std::optional<double> chance;
  /// No loss was seen, and the chance of one is known and at most kAcceptedChance.
  bool passed() const;

  static constexpr double kLoss = 0.01;
  static constexpr double kAcceptedChance = 0.1;
};

/// The largest number of `population` that may be losses where `losses` of `drawn`, drawn at random without
/// replacement, are: the largest K for which a hypergeometric variable (population, K, drawn) is at most
/// `losses` with a probability above 5 %. One-sided and exact as Clopper and Pearson's limit (Biometrika 26,
/// 1934) is for a binomial one, which is its limit for a large population.
std::int64_t most_losses(std::int64_t population, std::int64_t drawn, std::int64_t losses);

class PruningAudit {
 public:
  /// Draws one in kShareOf of `left_out`, at least kLeast. `costs`: of each variant, timed.
  PruningAudit(const std::vector<LeftOut>& left_out, const plan::VariantCosts& costs, std::uint64_t seed);
  /// What has to be measured, in random order: the first few of them are a sample too.
  const std::vector<LeftOut>& drawn() const { return drawn_; }
  /// The result of one that was drawn, failed ones too.
  void tell(const Candidate& candidate, const Trial& trial);
  /// All that were drawn have been told.
  bool complete() const { return audited_ == static_cast<std::int64_t>(drawn_.size()); }
  /// As far as it has come; the chance only of a complete audit. That is simulated: of each candidate drawn,
  /// e = log(measured / predicted) in units of the prediction's deviation, where that is known, else of how
  /// far it was predicted from its variant's best time, as a model errs more of schedules that it takes for
  /// very different; kLeastError is added to both. In each of kDraws worlds these get random weights (the
  /// Bayesian bootstrap: D. B. Rubin, Annals of Statistics 9, 1981), every candidate not drawn gets an e by
  /// them and so a time, and the shortest path says whether the world has a plan more than kLoss shorter than
  /// the shortest that was measured. What a candidate gets is spread around the e that was seen (a kernel
  /// density of Silverman's width, B. W. Silverman, Density Estimation, 1986): of many candidates some err
  /// more than any of a dozen that were seen. Noise of measurements is part of e, so that a chance is rather
  /// too high than too low.
  PruningEstimate estimate() const;
  /// Root mean square of e, to hold it against a prediction's own deviation: about 1 where that is right. One
  /// that errs by more than three deviations counts as three: one of them must not say how all others err.
  /// nullopt: too few were audited to say.
  std::optional<double> error_size() const;
  /// The chance, from draws that know better than one candidate at a time how predictions err.
  void settle(double chance) { settled_chance_ = chance; }

  static constexpr std::size_t kShareOf = 8, kLeast = 12;
  static std::size_t draws(std::size_t left_out);

 private:
  /// The unit of a candidate's error; 0: it may take any time.
  double error_scale(const LeftOut& one) const;
  double chance_of_loss() const;
  double error_width() const;

  std::vector<LeftOut> drawn_, rest_;
  std::int64_t audited_ = 0, losses_ = 0;
  std::vector<double> errors_;       // e, as estimate() has it, of those that ran
  plan::VariantCosts before_, now_;  // costs when drawn, and with what was audited
  double best_us_;                   // the shortest path's length under before_
  std::uint64_t seed_;
  std::optional<double> settled_chance_;
};

/// What a search that left candidates out says of it at its end.
struct PruningReport {
  PruningEstimate last;                              // of the last audit
  std::int64_t audits = 0, audited = 0, losses = 0;  // of all of them
  std::int64_t widened = 0;  // how often the class that is left out was halved, as an audit had failed
  bool complete = false;     // the last audit was not cut short
  bool settled = false;      // it passed, or all that it found wanting was timed since
};

}  // namespace fusetune::search
