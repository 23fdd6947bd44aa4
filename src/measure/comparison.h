// A comparison of plans with a baseline: its pairs are taken in several processes, and its intervals cover
// what differs between them.
//
// In one process the memory of a plan lies where it happens to lie, and its ratio to another plan is off by
// as much as that is worth, however many pairs are taken (T. Kalibera and R. Jones, Rigorous benchmarking in
// reasonable time, 2013; T. Mytkowicz et al., Producing wrong data without doing anything obviously wrong,
// 2009). docs/method.md has what that is worth here. How much is in the data: pairs of one process that are
// alike make the mean signs of processes differ more than signs drawn by lot would, and the pairs count as so
// many fewer.
//
// A plan that is clearly apart is dropped early. Looking more than once costs error probability, which is
// spent openly: a tenth at each early look, the rest at the end.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "measure/pairs.h"
#include "measure/statistics.h"

namespace fusetune::measure {

/// Processes that the pairs are taken in; fewer where there would not be kLeastPairsOfProcess for each, and
/// an even number, as who stands on which side first alternates.
inline constexpr int kMostProcesses = 8;
inline constexpr int kLeastPairsOfProcess = 2;
/// An early decision needs so many, and is looked for after every second one.
inline constexpr int kProcessesOfFirstLook = 4;
/// Beyond the tie band by this much, a plan need not be timed any longer.
inline constexpr double kClearlyApart = 0.01;
/// Error probability of all intervals of one comparison together.
inline constexpr double kFamilyError = 0.05;
/// How a comparison is taken and judged: those of another version are not comparable.
inline constexpr int kComparisonVersion = 3;

/// When the intervals are looked at.
enum class Looks : std::uint8_t {
  early,      // and plans that are clearly apart are dropped
  at_the_end  // what counts is the ratio, whatever it is
};

/// What was seen of one plan beside the baseline, process after process.
struct PlanSeries {
  PairSeries series;                  // of all processes so far
  std::vector<int> pairs_of_process;  // of each
  bool is_open = true;                // is timed in the next process
  bool has_failed = false;
  bool stopped_early = false;
};

/// How many pairs count as one, as those of one process are alike: sum over processes of n_j s_j^2 / (their
/// number - 1), where s_j is the mean sign of (ratio - median ratio) over the n_j pairs of process j; one in
/// the mean where they are no more alike than others. nullopt for fewer than two processes.
std::optional<double> design_effect(const PlanSeries& plan);

class Comparison {
 public:
  /// Of plans 1 .. plans-1 with plan 0, `pairs` pairs each.
  Comparison(int plans, int pairs, Looks looks = Looks::early);

  /// The plans that the next process times, the baseline first; empty: there is no next. Where all others
  /// have failed the baseline is timed alone.
  std::vector<int> next_plans() const;
  /// How many pairs of each it takes: what is missing in equal shares, at most twice what that was at first.
  int next_pairs() const;
  int next_process() const { return process_; }
  /// What time_pairs() gave for next_plans(). Plans that are clearly apart are not timed any longer, unless
  /// looks are at the end.
  void add(const std::vector<PairSeries>& taken);
  /// Plan `plan` failed: it is not timed any longer.
  void take_out(int plan);

  /// With the outcome that it would have if there were no more: `noisy` where too many pairs were
  /// interrupted.
  const PairSeries& series(int plan) const;
  /// Interval of the median ratio of `plan`, simultaneous over all plans and over the looks. Never below 0.
  /// Where so few pairs count as independent that no two of them enclose it as surely, all that was seen: the
  /// medians of all eight processes lie on one side with a chance of 0.8 %. Infinite where there are fewer
  /// processes.
  Interval interval(int plan) const;

 private:
  PlanSeries& at(int plan) { return plans_[static_cast<std::size_t>(plan)]; }
  const PlanSeries& at(int plan) const { return plans_[static_cast<std::size_t>(plan)]; }
  int missing_pairs(const std::vector<int>& plans) const;
  int early_looks() const;
  void find_design_effect();
  void drop_clearly_apart();
  void conclude();
  Interval interval(int plan, bool early) const;

  int pairs_;
  Looks looks_;
  int processes_;
  int process_ = 0;
  std::vector<PlanSeries> plans_;
  double design_effect_ = 1;  // mean over all plans
};

}  // namespace fusetune::measure
