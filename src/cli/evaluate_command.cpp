// evaluate: how good the cost model is on plans and on problems that were held out; how good strategies are
// on recorded plans.
#include <fmt/core.h>

#include <cmath>

#include "base/error.h"
#include "base/number.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/model_options.h"
#include "cli/output.h"
#include "cli/strategy_comparison.h"
#include "cli/training_source.h"
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

/// "16,32,64".
std::vector<std::int64_t> parse_trials(const std::string& text) {
  std::vector<std::int64_t> trials;
  for (const std::string& word : base::split(text, ',')) {
    const auto number = base::parse_int(word);
    if (!number || *number < 1)
      throw base::UsageError("--trials: expected whole numbers above 0 with commas between them, not '" +
                             text + "'");
    trials.push_back(*number);
  }
  return trials;
}

int evaluate_strategies(const TrainingSource& source, ComparisonOptions options, const RowsOutput& output) {
  const auto& groups = source.set.groups();
  if (groups.size() > 1)
    throw base::UsageError(
        fmt::format("--strategies compares them on one problem, and {} has {}: name one with --problem",
                    source.name, groups.size()));
  if (groups.empty()) return say_too_little(source.name + " has no plan with a time");
  if (source.set.features().schema() == model::Schema::plan)
    options.problem = block::Problem::parse(groups.front());
  std::vector<search::TimedPlan> recorded;
  const auto examples = source.set.examples();
  for (std::size_t i = 0; i < examples.size(); ++i)
    recorded.push_back({source.plans[i], examples[i].time, examples[i].uniform});
  const report::Table table = compare_strategies(recorded, options);
  if (output.write(table)) return kDone;
  print(table.to_text() +
        fmt::format("\nRegret against the fastest of {} recorded plans, over {} searches each.\n",
                    recorded.size(), options.repeats));
  return kDone;
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
  bool strategies = false;
  std::string trials = "16,32,64,128";
  ComparisonOptions comparison;
  options.flag("--strategies", strategies,
               "instead of the model: searches of whole plans on the recorded times");
  options.text("--trials", trials, "N,N,...", "with --strategies: plans that a search may time");
  options.integer("--repeats", comparison.repeats, "N", "with --strategies: searches of each kind", 1, 1000);
  output.declare(options);
  options.parse();
  output.check();
  for (const char* name : {"--trials", "--repeats"})
    if (options.given(name) && !strategies)
      throw base::UsageError(std::string(name) + " belongs to --strategies");
  comparison.trials = parse_trials(trials);

  const model::TrainOptions train_options = fit.options();
  comparison.seed = train_options.seed;
  const TrainingSource source = arguments.read();
  if (strategies) return evaluate_strategies(source, comparison, output);
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
