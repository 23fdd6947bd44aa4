// predict: what the cost model expects of plans. One line a mask: the time and the class.
#include <fmt/core.h>

#include "base/error.h"
#include "base/number.h"
#include "cli/command.h"
#include "cli/mask_arguments.h"
#include "cli/model_options.h"
#include "cli/output.h"
#include "cli/plan_prediction.h"
#include "cli/problem_options.h"

namespace fusetune::cli {
namespace {

/// Plans and the masks they were asked for by.
struct Asked {
  std::vector<plan::FusionMask> masks;
  std::vector<plan::FusionPlan> plans;
};

Asked asked_for(const MaskArguments& arguments, bool all) {
  Asked asked;
  if (all) {
    if (!arguments.masks().empty())
      throw base::UsageError("--all predicts every plan: give no MASK beside it");
    for (const plan::FusionPlan& plan : plan::all_plans()) asked.masks.push_back(plan.canonical_mask());
  } else {
    asked.masks = arguments.at_least_one();
  }
  for (const plan::FusionMask mask : asked.masks) asked.plans.push_back(plan::FusionPlan::from_mask(mask));
  return asked;
}

report::Table rows(const Asked& asked, const std::vector<model::Prediction>& predictions,
                   const std::string& unit) {
  const std::string key = unit.empty() ? "value" : "time_" + unit;
  report::Table table({{"mask", "mask"},
                       {"binary", "binary"},
                       {"plan", "plan"},
                       {key, unit.empty() ? "value" : "time " + unit},
                       {"class", "class"},
                       {"probability", "probability"}});
  for (std::size_t i = 0; i < predictions.size(); ++i)
    table.add({std::int64_t{asked.masks[i].value}, asked.masks[i].to_binary(), asked.plans[i].to_string(),
               predictions[i].time, std::int64_t{predictions[i].high}, predictions[i].probability});
  return table;
}

/// Three digits behind the point; of a time below one, which may be in seconds, three significant ones.
std::string line_of(const model::Prediction& prediction) {
  const std::string time =
      prediction.time < 1 ? fmt::format("{:#.3g}", prediction.time) : base::format_fixed(prediction.time, 3);
  return fmt::format("{} {}\n", time, prediction.high ? 1 : 0);
}

std::string explain(plan::FusionMask mask, const model::Prediction& prediction,
                    const report::Table& features) {
  return fmt::format("{}   {}{}\n", mask.to_binary(), line_of(prediction), features.to_text());
}

std::string explain_all(const model::CostModel& cost_model, const model::FeatureTable& table,
                        const Asked& asked, const std::vector<model::Prediction>& predictions) {
  const std::vector<model::Explanation> explanations = cost_model.explain(table);
  std::string text;
  for (std::size_t i = 0; i < predictions.size(); ++i)
    text += explain(asked.masks[i], predictions[i], driving_features(explanations[i], table, i));
  return text;
}

}  // namespace

int run_predict(Options& options) {
  MaskArguments masks;
  ProblemOptions problem;
  RowsOutput output;
  std::string file = kDefaultModel;
  bool all = false, explained = false;
  masks.declare(options, true);
  options.flag("--all", all, "every plan there is");
  options.text("--cost-model", file, "FILE",
               "the model that train wrote, or `shipped`: the one inside the program");
  options.flag("--explain", explained, "what drove each prediction");
  output.declare(options);
  problem.declare(options);
  options.footnote(
      "A line is the time in the unit of the model's training data (6.62e-05 where it is small), and 1 (High "
      "Performance) or 0 (Low).");
  options.parse();
  output.check();
  if (explained && output.to_stdout())
    throw base::UsageError("--explain prints for people: give --json or --csv a file");

  const Asked asked = asked_for(masks, all);
  const model::CostModel cost_model = load_model(file);
  const model::FeatureTable table = features_of(cost_model.info(), problem, asked.plans);
  const std::vector<model::Prediction> predictions = cost_model.predict(table);
  if (output.wanted() && output.write(rows(asked, predictions, cost_model.info().unit))) return kDone;
  if (explained) {
    print(explain_all(cost_model, table, asked, predictions));
    return kDone;
  }
  std::string lines;
  for (const model::Prediction& prediction : predictions) lines += line_of(prediction);
  print(lines);
  return kDone;
}

}  // namespace fusetune::cli
