// How good a cost model is on rows it has not seen.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "model/cost_model.h"

namespace fusetune::model {

/// A search times about this many finalists whole: one of them should be the best.
inline constexpr std::size_t kTopPlans = 8;

/// One problem. NaN: not known.
struct GroupScore {
  std::string group;
  std::size_t rows = 0;            // predicted by models that had not seen them
  double spearman = 0;             // predicted and measured times
  double noise_ceiling = 0;        // Spearman of two independent measurements of the same plans
  double work_spearman = 0;        // of FeatureTable::work() and the times: the roofline's
  std::size_t measured_twice = 0;  // rows behind noise_ceiling
  bool top_holds_best = false;     // the kTopPlans fastest predicted plans hold one tied with the best
  double regret = 0;               // of a search that measures only what is predicted High
  double kept = 0;                 // share of the rows predicted High
  double precision = 0, recall = 0, auc = 0;  // of the classifier, High positive
  // Of kernels only (plans_by_sums.h), NaN for whole plans:
  double path_regret = 0;
  double plan_spearman = 0, plan_noise_ceiling = 0;  // over all plans, by sums; as spearman, noise_ceiling
};

struct Evaluation {
  std::vector<GroupScore> groups;  // those with at least one predicted row, in the set's order
  std::string missing;             // why there is no score: too few rows to fit a model
};

/// For each row of the set the probability of High by a classifier fitted to the other folds, which are those
/// of cross_validate_plans(). Empty: too few rows to fit one.
std::vector<double> held_out_probabilities(const TrainingSet& set, const TrainOptions& options,
                                           int folds = 5);

/// Every row is predicted by a model fitted to the other folds; rows fall into `folds` folds by the seed.
/// With `fitted` < folds only so many folds are held out, the rest is not predicted: one of five is a fifth
/// of the work. A High row is one by all rows of its problem.
Evaluation cross_validate_plans(const TrainingSet& set, const TrainOptions& options, int folds = 5,
                                int fitted = 5);
/// Groups are held out together whose `parts` (one a group of the set) are equal, and predicted by a model
/// fitted to the others; `missing` where all are equal.
Evaluation cross_validate_parts(const TrainingSet& set, const TrainOptions& options,
                                std::span<const std::string> parts);
/// Every problem is predicted by a model fitted to the others; `missing` where there is only one.
Evaluation cross_validate_problems(const TrainingSet& set, const TrainOptions& options);

/// Mean over the groups that know the figure, by name, for a sidecar: spearman, noise_ceiling,
/// top_holds_best, regret, path_regret, plan_spearman, plan_noise_ceiling, kept, precision, recall, auc,
/// rows.
std::map<std::string, double> summarize(const Evaluation& evaluation);

}  // namespace fusetune::model
