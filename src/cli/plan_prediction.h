// Plans as a cost model sees them: what predict and explain have in common.
#pragma once

#include <vector>

#include "cli/problem_options.h"
#include "model/cost_model.h"
#include "plan/fusion_plan.h"
#include "report/table.h"

namespace fusetune::cli {

/// One row a plan, in the model's schema, of the problem that was asked for, else of the only one the model
/// was fitted to. Says where the model was not fitted to that problem. Throws base::UsageError where the
/// model predicts no plans, or of several problems or none.
model::FeatureTable features_of(const model::ModelInfo& info, const ProblemOptions& problem,
                                const std::vector<plan::FusionPlan>& plans);

inline constexpr std::size_t kShownFeatures = 10;
/// The `most` features that moved a row's prediction most, each with the factor by which it did.
report::Table driving_features(const model::Explanation& explanation, const model::FeatureTable& table,
                               std::size_t row, std::size_t most = kShownFeatures);

}  // namespace fusetune::cli
