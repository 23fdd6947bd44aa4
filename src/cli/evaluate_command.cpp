// evaluate: how good the cost model is on plans and on problems that were held out; how good strategies are
// on recorded plans.
#include <fmt/core.h>

#include <cmath>

#include "base/error.h"
#include "cli/audit_calibration.h"
#include "cli/command.h"
#include "cli/model_options.h"
#include "cli/output.h"
#include "cli/strategy_arguments.h"
#include "cli/training_source.h"
#include "cli/whole_over_sums.h"
#include "model/evaluation.h"

namespace fusetune::cli {
namespace {

report::Table empty_table() {
  return report::Table({{"held_out", "held out"},
                        {"problem", "problem"},
                        {"plans", "plans"},
                        {"spearman", "Spearman"},
                        {"noise_ceiling", "noise ceiling"},
                        {"top8_holds_best", "top 8 hold best"},
                        {"regret", "regret of pruned"},
                        {"kept", "kept"},
                        {"precision", "precision"},
                        {"recall", "recall"},
                        {"auc", "AUC"}});
}

/// A figure that is not known is left empty.
report::Cell cell(double value) {
  if (std::isnan(value)) return std::monostate();
  return value;
}

void add(report::Table& table, const std::string& held_out, const model::Evaluation& evaluation) {
  for (const model::GroupScore& score : evaluation.groups)
    table.add({held_out, score.group, static_cast<std::int64_t>(score.rows), cell(score.spearman),
               cell(score.noise_ceiling), score.top_holds_best, cell(score.regret), cell(score.kept),
               cell(score.precision), cell(score.recall), cell(score.auc)});
}

report::Table empty_segment_table() {
  return report::Table({{"held_out", "held out"},
                        {"group", "problem and environment"},
                        {"kernels", "kernels"},
                        {"spearman", "Spearman"},
                        {"roofline", "of the roofline"},
                        {"noise_ceiling", "noise ceiling"},
                        {"path_regret", "regret of path"},
                        {"plan_spearman", "plans: Spearman"},
                        {"plan_noise_ceiling", "noise ceiling"},
                        {"top8_holds_best", "top 8 hold best"},
                        {"precision", "precision"},
                        {"recall", "recall"},
                        {"auc", "AUC"}});
}

void add_segments(report::Table& table, const std::string& held_out, const model::Evaluation& evaluation) {
  for (const model::GroupScore& score : evaluation.groups)
    table.add({held_out, score.group, static_cast<std::int64_t>(score.rows), cell(score.spearman),
               cell(score.work_spearman), cell(score.noise_ceiling), cell(score.path_regret),
               cell(score.plan_spearman), cell(score.plan_noise_ceiling), score.top_holds_best,
               cell(score.precision), cell(score.recall), cell(score.auc)});
}

/// What groups of kernels are held out by, and how that is called.
struct Parting {
  const char* what;
  const char* one;
  std::string SegmentGroup::*value;
};

/// Kernels: some of each problem held out, then whole problems, mask patterns, sizes and environments.
int evaluate_segments(const TrainingSource& source, const model::TrainOptions& options, int folds,
                      RowsOutput& output) {
  const model::Evaluation kernels = model::cross_validate_plans(source.set, options, folds, folds);
  if (!kernels.missing.empty())
    return say_too_little(fmt::format("{} is too little to evaluate: {}", source.name, kernels.missing));
  report::Table table = empty_segment_table();
  add_segments(table, "kernels", kernels);
  std::string missing;
  for (const Parting& parting :
       {Parting{"problems", "problem", &SegmentGroup::problem},
        Parting{"masks", "mask pattern", &SegmentGroup::mask}, Parting{"sizes", "size", &SegmentGroup::size},
        Parting{"environments", "environment", &SegmentGroup::environment}}) {
    std::vector<std::string> parts;
    for (const SegmentGroup& group : source.segments) parts.push_back(group.*parting.value);
    const model::Evaluation held_out = model::cross_validate_parts(source.set, options, parts);
    add_segments(table, parting.what, held_out);
    if (!held_out.missing.empty())
      missing += fmt::format("No {} was held out: {}.\n", parting.one, held_out.missing);
  }
  if (output.write(table)) return kDone;
  print(table.to_text() +
        "\nSpearman: of predicted and measured times; of the roofline: of FLOPs plus eight times the bytes.\n"
        "Noise ceiling: of two measurements of the same kernels. Regret of path: what the shortest plan by\n"
        "predicted times loses against the best recorded sum. Plans: all of them, by sums of their kernels; "
        "of\n"
        "the eight shortest predicted one is at most 0.5 % above the least recorded sum.\n" +
        missing);
  return kDone;
}

int evaluate_sums(const TrainingArguments& arguments, std::uint64_t seed, const RowsOutput& output) {
  const RecordedRows rows = arguments.rows();
  const report::Table table = whole_over_sums(rows.contents, rows.name, seed);
  if (table.size() == 0)
    return say_too_little(rows.name +
                          " has no plans drawn uniformly whose kernels were timed alone: fusetune search "
                          "--strategy exhaustive, then --strategy random, records them");
  if (output.write(table)) return kDone;
  print(table.to_text() +
        fmt::format(
            "\nWhole/sum: what a plan takes over the sum of its kernels, each timed alone. Modelled: over "
            "that times\nwhat a Gaussian process fitted to {} of the plans predicts of whole/sum, the others "
            "only.\n",
            kModelledPlans));
  return kDone;
}

int evaluate_audit(const TrainingArguments& arguments, int repeats, std::uint64_t seed,
                   const RowsOutput& output) {
  const RecordedRows rows = arguments.rows();
  const report::Table table = audit_calibration(rows.contents, rows.name, repeats, seed);
  if (table.size() == 0)
    return say_too_little(rows.name +
                          " has no problem whose kernels make a plan: fusetune search --strategy exhaustive "
                          "records them");
  if (output.write(table)) return kDone;
  print(table.to_text() +
        "\nTimed: kernels, in the mean. Regret: of the least sum found against the least recorded. Loss: "
        "that it is "
        "above 1 %,\nas the search's audit estimates it and as it was.\n");
  return kDone;
}

std::string legend(const model::Evaluation& plans) {
  std::string text =
      "Spearman: of predicted and measured times. Noise ceiling: of two measurements of the same plans.\n"
      "Regret: what is lost when only the kept share, predicted High Performance, is measured.\n";
  for (const model::GroupScore& score : plans.groups)
    if (std::isnan(score.noise_ceiling))
      text += fmt::format("No noise ceiling for {}: {} plans were measured twice, 10 are needed.\n",
                          score.group, score.measured_twice);
  return text;
}

}  // namespace

int run_evaluate(Options& options) {
  TrainingArguments arguments;
  ModelOptions fit;
  int folds = 5;
  RowsOutput output;
  arguments.declare(options);
  fit.declare(options);
  options.integer("--folds", folds, "N", "parts that plans are held out in, one after the other", 2, 100);
  bool sums = false, audit = false;
  options.flag("--sums", sums, "instead: recorded plans against the sums of their kernels");
  options.flag(
      "--audit", audit,
      "instead: `guided` replayed on recorded kernels, what it says it may have lost against what it lost");
  StrategyArguments strategies;
  output.declare(options);
  strategies.declare(options);
  options.parse();
  output.check();
  strategies.check(options, output, arguments);

  const model::TrainOptions train_options = fit.options();
  if (int{sums} + int{audit} + int{strategies.wanted()} + int{arguments.of_segments()} > 1)
    throw base::UsageError(
        "--segments, --strategies, --sums and --audit exclude each other: each is an evaluation of its own");
  if (sums) return evaluate_sums(arguments, train_options.seed, output);
  if (audit) return evaluate_audit(arguments, strategies.repeats(), train_options.seed, output);
  const TrainingSource source = arguments.read();
  if (arguments.of_segments()) return evaluate_segments(source, train_options, folds, output);
  if (strategies.wanted()) return strategies.run(source, train_options.seed, output);
  if (source.set.size() == 0) return say_too_little(source.name + " has no such plan with a time");
  const model::Evaluation plans = model::cross_validate_plans(source.set, train_options, folds, folds);
  if (!plans.missing.empty())
    return say_too_little(fmt::format("{} is too little to evaluate: {}", source.name, plans.missing));
  const model::Evaluation problems = model::cross_validate_problems(source.set, train_options);
  report::Table table = empty_table();
  add(table, "plans", plans);
  add(table, "problems", problems);
  if (output.write(table)) return kDone;
  print(table.to_text() + "\n" + legend(plans));
  if (!problems.missing.empty()) print("No problem was held out: " + problems.missing + ".\n");
  return kDone;
}

}  // namespace fusetune::cli
