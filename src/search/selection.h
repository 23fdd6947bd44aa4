// From segment times to a winner: which plans to time whole, and which of them wins.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plan/fusion_plan.h"
#include "plan/shortest_path.h"

namespace fusetune::search {

inline constexpr int kMaximumFinalists = 16;

/// Plans that every search reports against: unfused, all-fused, ByteTransformer's.
struct ReferencePlan {
  std::string_view name;
  plan::FusionPlan plan;
};
std::span<const ReferencePlan> reference_plans();

/// What a plan's expected time comes from.
enum class Basis {
  sum,    // of its segments' times
  whole,  // it was timed whole
  model,  // predicted from other plans timed whole
};

struct Finalist {
  plan::FusionPlan plan;
  double sum_us = 0;       // of its segments' times; 0: not known
  double expected_us = 0;  // its own time, as far as it is known
  Basis basis = Basis::sum;
};

/// The `k` cheapest plans by sum, cheapest first, then the reference plans that are not among them and whose
/// segments all have times; at most kMaximumFinalists. Empty where no complete plan has times.
std::vector<Finalist> select_finalists(const plan::VariantCosts& costs, int k);

/// A plan timed whole against a common baseline plan: ratio = its time / the baseline's, with an interval.
struct Contender {
  plan::FusionPlan plan;
  bool valid = false;  // right and timed; an invalid one can neither win nor tie
  double ratio = 1;
  double low = 1;
  double high = 1;
};

/// What a tied plan may seem to lose and still win by having fewer kernels. On a quiet machine ties are
/// narrower than this; on a noisy one an interval that includes 1 says only that nobody knows, and the
/// measured ratio is the best guess there is.
inline constexpr double kSimplerMayLose = 0.01;

/// Tied with the baseline: the interval includes 1, or the ratio is within base::kTieBand of 1.
bool is_tied(const Contender& contender);

struct Decision {
  /// Winner's index. Among tied plans whose measured ratio is at most kSimplerMayLose above the least of
  /// theirs the one with fewer kernels, then the smaller canonical mask: where the machine is quiet, two runs
  /// of a search that see the same tie name the same winner.
  std::size_t winner = 0;
  /// All plans tied with the baseline, itself and the winner included, best name first.
  std::vector<std::size_t> tied;
  /// A plan that is clearly faster than the baseline, the fastest such: the comparison has to be made again
  /// with it as the baseline before anything is decided.
  std::optional<std::size_t> challenger;
};

/// `contenders[0]` is the baseline and must be valid. Throws base::InternalError otherwise.
Decision decide(std::span<const Contender> contenders);

}  // namespace fusetune::search
