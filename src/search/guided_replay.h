// `guided` on recorded kernels and plans, its cost counted in timings of whole plans.
//
// The other plan strategies pay one trial for each plan. `guided` times kernels first, which it pays for too:
// each kernel counts as the share of a whole plan's trial that measuring it takes. Within a budget it divides
// its time as a search with a time limit does: kernels up to the limit, and a fifth of it more for plans.
#pragma once

#include <cstdint>
#include <optional>

#include "search/plan_replay.h"
#include "search/replay.h"
#include "search/segment_model.h"

namespace fusetune::search {

struct GuidedReplayOptions {
  std::optional<double> budget = {};  // in trials of whole plans; nullopt: until it is done
  double kernel_cost = 1;             // of measuring a kernel, in trials of whole plans; > 0
  int finalists = 8;                  // as of a search
  std::uint64_t seed = 0;
  SegmentModel* model = nullptr;
  Priors priors = {};
};

struct GuidedReplayResult {
  PlanReplayResult plans;    // `improvements` count what the kernels took
  std::int64_t kernels = 0;  // measured
  double spent = 0;          // on kernels and plans, in trials of whole plans
  bool by_prior = false;     // it trusted one of the priors
};

/// Asks for nothing that would exceed the budget. Plans that were not recorded are none it may ask for, as
/// for the other strategies.
GuidedReplayResult replay_guided(const Replay& kernels, const PlanReplay& plans,
                                 const GuidedReplayOptions& options);

}  // namespace fusetune::search
