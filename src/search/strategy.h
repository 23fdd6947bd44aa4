// Strategies are ask/tell objects: the command asks for candidates, measures them (or looks them up, or
// replays a recording) and tells the result. A strategy never sees a device, which is how it can be tested.
//
// To add one: a file in this folder and a row in strategy.cpp.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "search/pruning_audit.h"
#include "search/segment_prior.h"
#include "search/space.h"

namespace fusetune::search {

/// A candidate that a strategy knows and did not ask for.
struct UntimedCandidate {
  Candidate candidate;
  double least_us = 0;  // it takes at least so long, by the roofline; 0: nothing is known
  bool proved =
      false;  // not asked for as it is in no plan worth having (certificate.h): not pruned, not left
};

class Strategy {
 public:
  virtual ~Strategy() = default;
  /// Up to `limit` candidates to measure next, each at most once over the strategy's life. Empty once every
  /// candidate it wants was asked for, or while it waits for results of candidates it handed out.
  virtual std::vector<Candidate> ask(int limit) = 0;
  /// The result of a candidate that ask() gave; every one must be told, failed ones too.
  virtual void tell(const Candidate& candidate, const Trial& trial) = 0;
  /// Candidates it expects to ask for in all, those told included: for the progress display.
  virtual int expected() const = 0;
  /// Candidates that its model put into the slow class at its last fit and that were not asked for.
  virtual std::int64_t pruned() const { return 0; }
  /// Candidates beside those pruned that have no result: they were not worth it, or it was stopped before
  /// them. An estimate until all tiles are tuned.
  virtual std::int64_t left() const = 0;
  /// Those beyond the defaults that were not asked for, as things stood at the last fit; none: it does not
  /// know them yet, or leaves nothing out.
  virtual std::vector<UntimedCandidate> untimed() const { return {}; }
  /// What an audit says of those left untimed; nullopt: it has made none.
  virtual std::optional<PruningReport> pruning() const { return std::nullopt; }
  /// How the priors did that it was given, up to the one that it trusts; none: it has no use for them, or has
  /// not tested them yet.
  virtual std::span<const PriorTest> prior_tests() const { return {}; }
  /// True when it ended because the certificate closed.
  virtual bool closed() const { return false; }
};

/// When a strategy may end before its time: once no plan over what was timed, or could be, can be more than
/// `epsilon` faster than the best, if every plan takes at least `alpha` times the sum of its segments. That
/// is not known while segments are timed; what a search says at its end uses what it has seen
/// (docs/method.md).
struct Closing {
  double alpha = 1;
  double epsilon = 0;  // 0: only where nothing can be faster at all
};

class SegmentModel;  // segment_model.h

struct StrategyInfo {
  std::string_view name;
  std::string_view summary;
  /// A PlanRefinement follows: plans timed whole, the others predicted from them.
  bool refines_plans = false;
  bool takes_priors = false;
  /// `seed` decides the order wherever it is free; `model` may be null.
  std::unique_ptr<Strategy> (*make)(const Space& space, SegmentModel* model, std::uint64_t seed,
                                    const Closing& closing, Priors priors);
};

std::span<const StrategyInfo> strategies();
/// nullptr: there is no such strategy over segments; see plan_strategy.h for those over plans.
const StrategyInfo* find_strategy(std::string_view name);
/// False also for a strategy that is not over segments.
bool takes_priors(std::string_view name);
/// Throws base::InternalError for a name that find_strategy() does not know.
std::unique_ptr<Strategy> make_strategy(std::string_view name, const Space& space, std::uint64_t seed,
                                        SegmentModel* model = nullptr, const Closing& closing = {},
                                        Priors priors = {});

}  // namespace fusetune::search
