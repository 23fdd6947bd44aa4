// How much longer a plan takes whole than its segments took alone, as far as a few plans timed whole can say.
//
// Not the cost model of src/model: a search has some twenty such plans, which differ by a few percent. Trees
// fitted to so little predict a handful of levels, of which each covers the plans to be told apart, and know
// nothing of plans with fewer kernels than those they saw. What is known beforehand is the form: each border
// costs about the same (a launch's barrier, inputs that another core wrote), some more, some less. So
// log(whole / sum) is linear here, in the number of borders and, shrunk towards that, in each border and in
// hand-written attention: ridge regression. How far single borders may depart from the common slope is what
// predicts each plan best from the others (leave-one-out).
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "plan/fusion_plan.h"

namespace fusetune::search {

class WholeOverSum {
 public:
  struct Sample {
    plan::FusionPlan plan;
    double ratio = 1;  // time whole / sum of its segments' times; finite, > 0
  };

  /// Learns from these samples alone. Any number of them will do: without one, every ratio is 1; with one or
  /// two it is their mean, more or less.
  void fit(std::span<const Sample> samples);
  /// Of a plan: predicted whole / sum.
  double predict(const plan::FusionPlan& plan) const;

 private:
  /// 1, borders, each border, hand-written attention.
  static constexpr std::size_t kColumns = 17;
  using Row = std::array<double, kColumns>;
  class System;

  static Row row_of(const plan::FusionPlan& plan);

  Row weights_{};
};

}  // namespace fusetune::search
