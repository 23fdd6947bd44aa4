// Plans with made-up times that depend on their borders, for tests of the cost model.
#pragma once

#include <cmath>
#include <random>
#include <vector>

#include "model/training_set.h"

namespace fusetune::model {

/// `count` different plans in an order that the seed decides.
inline std::vector<plan::FusionPlan> some_plans(std::size_t count, std::uint64_t seed = 1) {
  std::vector<plan::FusionPlan> plans = plan::all_plans();
  std::mt19937_64 random(seed);
  for (std::size_t i = 0; i < count; ++i) std::swap(plans[i], plans[i + random() % (plans.size() - i)]);
  plans.resize(count, plan::FusionPlan::unfused());
  return plans;
}

/// Between 1 and about 4: fewer kernels are faster, [7-9] together much, and two borders interact.
inline double shape_of(const plan::FusionPlan& plan) {
  const auto border = [&](int op) { return (plan.borders() >> op) & 1; };
  double time = 1 + 0.12 * plan.kernel_count();
  if (border(7) || border(8)) time *= 1.3;
  if (border(2) && !border(11)) time *= 1.2;
  if (plan.hand_written()) time *= 0.9;
  return time;
}

/// Schema plan_bits, one group, times around `unit`.
inline TrainingSet synthetic_set(std::size_t count, double unit = 1e-5, std::uint64_t seed = 1) {
  TrainingSet set(Schema::plan_bits);
  Example example;
  example.group = set.group("synthetic");
  for (const plan::FusionPlan& plan : some_plans(count, seed)) {
    example.time = unit * shape_of(plan);
    set.add(plan, example);
  }
  return set;
}

/// Small enough to describe in no time.
inline block::Problem small_problem(std::int64_t seq = 32) {
  block::Problem problem;
  problem.seq = seq;
  problem.heads = 2;
  problem.head_size = 16;
  problem.ffn = 128;
  return problem;
}

}  // namespace fusetune::model
