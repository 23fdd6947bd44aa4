#include "cli/plan_prediction.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/log.h"

namespace fusetune::cli {
namespace {

/// The problem that was asked for, else the only one the model was fitted to, else that of the defaults.
block::Problem problem_for(const model::ModelInfo& info, const ProblemOptions& problem) {
  if (problem.command_line().empty()) {
    if (info.groups.size() == 1) return block::Problem::parse(info.groups.front());
    base::note(fmt::format("note: no problem was given: this is {}", describe(problem.problem())));
  }
  block::Problem chosen = problem.problem();
  if (std::find(info.groups.begin(), info.groups.end(), chosen.key()) == info.groups.end())
    base::note("note: the model was not fitted to this problem: the times are extrapolated");
  return chosen;
}

}  // namespace

model::FeatureTable features_of(const model::ModelInfo& info, const ProblemOptions& problem,
                                const std::vector<plan::FusionPlan>& plans) {
  if (info.schema == model::Schema::segment)
    throw base::UsageError("this cost model predicts segments, not plans: fit one with fusetune train");
  if (info.schema == model::Schema::plan)
    return model::table_of(info.schema, problem_for(info, problem), plans);
  if (!problem.command_line().empty())
    throw base::UsageError(
        "this cost model knows no problem: it was fitted to a file of masks and values of one, and predicts "
        "that "
        "one only");
  return model::table_of(info.schema, {}, plans);
}

report::Table driving_features(const model::Explanation& explanation, const model::FeatureTable& table,
                               std::size_t row, std::size_t most) {
  const auto features = model::features(table.schema());
  const auto values = table.row(row);
  std::vector<std::size_t> order(features.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::abs(explanation.features[a]) > std::abs(explanation.features[b]);
  });
  order.resize(std::min(order.size(), most));
  report::Table shown({{"feature", "feature"},
                       {"value", "value", 3},
                       {"factor", "factor on the time", 4},
                       {"definition", "what it is"}});
  for (const std::size_t i : order)
    shown.add({features[i].name, static_cast<double>(values[i]), std::exp(explanation.features[i]),
               features[i].definition});
  return shown;
}

}  // namespace fusetune::cli
