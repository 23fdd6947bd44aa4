// explain: what each border of a plan saves and costs, and what drove the plan's prediction.
#include <fmt/core.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "backend/cpu/cpu_info.h"
#include "base/error.h"
#include "base/number.h"
#include "cli/border_effects.h"
#include "cli/command.h"
#include "cli/mask_arguments.h"
#include "cli/measured_times.h"
#include "cli/model_options.h"
#include "cli/output.h"
#include "cli/plan_prediction.h"
#include "cli/problem_options.h"
#include "report/block_drawing.h"

namespace fusetune::cli {
namespace {

report::Cell cell(std::optional<double> value) { return value ? report::Cell(*value) : report::Cell(); }

std::optional<double> sum(std::optional<double> a, std::optional<double> b) {
  return a && b ? std::optional(*a + *b) : std::nullopt;
}

std::optional<double> ratio(std::optional<double> a, std::optional<double> b) {
  return a && b ? std::optional(*a / *b) : std::nullopt;
}

/// `predictions`: of the plan, then of the change at each border.
report::Table rows(const plan::FusionPlan& plan, const std::vector<BorderEffect>& effects,
                   const std::vector<model::Prediction>& predictions, const MeasuredTimes& measured) {
  report::Table table({{"border", "border"},
                       {"operators", "between"},
                       {"now", "now"},
                       {"changed_mask", "changed"},
                       {"kernels", "kernels"},
                       {"bytes", "bytes"},
                       {"on_chip_bytes", "on chip"},
                       {"predicted_ratio", "predicted", 3},
                       {"measured_ratio", "measured", 3},
                       {"fused_us", "fused us", 1},
                       {"parts_us", "parts us", 1},
                       {"note", ""}});
  for (std::size_t i = 0; i < effects.size(); ++i) {
    const BorderEffect& effect = effects[i];
    table.add({fmt::format("{}|{}", effect.op, effect.op + 1),
               fmt::format("{} | {}", block::name(static_cast<block::Operator>(effect.op)),
                           block::name(static_cast<block::Operator>(effect.op + 1))),
               std::string(effect.split ? "split" : "fused"),
               std::int64_t{effect.changed.canonical_mask().value}, std::int64_t{effect.kernels},
               static_cast<std::int64_t>(effect.bytes), effect.on_chip_bytes,
               predictions[i + 1].time / predictions[0].time,
               cell(ratio(measured.plan_us(effect.changed), measured.plan_us(plan))),
               cell(measured.segment_us(effect.fused)),
               cell(sum(measured.segment_us(effect.left), measured.segment_us(effect.right))), effect.note});
  }
  return table;
}

constexpr const char* kLegend =
    "changed: the plan with this border only the other way, and what that adds in kernels and in bytes to "
    "and from\n"
    "memory. on chip: bytes that the fused kernel keeps a thread under its default schedule. predicted, "
    "measured:\n"
    "time of the changed plan over this one's. fused, parts: the kernel of both sides against its two "
    "parts.\n";

std::string describe(const MeasuredTimes& measured, const plan::FusionPlan& plan, const std::string& file) {
  if (measured.empty())
    return fmt::format("{} has nothing of this problem: fusetune search measures it\n", file);
  const std::optional<double> us = measured.plan_us(plan);
  const std::string time = us ? fmt::format("this plan {} us", base::format_fixed(*us, 1))
                              : "not this plan as a whole (fusetune bench measures it)";
  return fmt::format("measured: {}, in environment {}\n", time, measured.environment());
}

/// What drove a plan's prediction: the model's, of its features.
struct Driven {
  model::Prediction prediction;
  std::string unit;
  model::Explanation explanation;
};

nlohmann::ordered_json optional_number(std::optional<double> value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
}

std::string to_json(const block::Problem& problem, const plan::FusionPlan& plan, const report::Table& borders,
                    const Driven& driven, const model::FeatureTable& features,
                    const MeasuredTimes& measured) {
  const report::Table every = driving_features(driven.explanation, features, 0, features.columns());
  const nlohmann::ordered_json json = {
      {"problem", problem.key()},
      {"mask", plan.canonical_mask().value},
      {"plan", plan.to_string()},
      {"predicted",
       {{"time", driven.prediction.time}, {"unit", driven.unit}, {"high", driven.prediction.high}}},
      {"measured",
       {{"time_us", optional_number(measured.plan_us(plan))}, {"environment", measured.environment()}}},
      {"borders", nlohmann::ordered_json::parse(borders.to_json())},
      {"features", nlohmann::ordered_json::parse(every.to_json())}};
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace

int run_explain(Options& options) {
  MaskArguments mask_arguments;
  ProblemOptions problem_options;
  RowsOutput output;
  std::string model_file = kShippedModel, database = "fusetune.db", environment;
  mask_arguments.declare(options, false);
  options.text("--cost-model", model_file, "FILE",
               "the model that train wrote, or `shipped`: the one inside the program");
  options.text("--db", database, "FILE", "measurements: a database, or what `db export` wrote");
  options.text("--environment", environment, "START", "of which environment, by how its name begins");
  output.declare(options);
  problem_options.declare(options);
  options.footnote(
      "--csv has the borders, --json also the prediction and every feature with its factor on it.");
  options.parse();
  output.check();
  if (options.given("--db") && !std::filesystem::exists(database))
    throw base::UsageError(fmt::format("--db {}: no such file", database));

  const std::vector<plan::FusionMask> masks = mask_arguments.at_least_one();
  if (masks.size() > 1) throw base::UsageError("explain takes one MASK: bench compares several plans");
  const plan::FusionPlan plan = plan::FusionPlan::from_mask(masks.front());
  const block::Problem problem = problem_options.problem();
  const backend::cpu::CpuInfo cpu = backend::cpu::probe_cpu();
  const std::vector<BorderEffect> effects =
      border_effects(plan, problem, backend::cpu::target_of(cpu, cpu.best_isa, cpu.cpus));
  std::vector<plan::FusionPlan> plans = {plan};
  for (const BorderEffect& effect : effects) plans.push_back(effect.changed);
  const model::CostModel cost_model = load_model(model_file);
  const model::FeatureTable features = features_of(cost_model.info(), problem_options, plans);
  const std::vector<model::Prediction> predictions = cost_model.predict(features);
  const MeasuredTimes measured(database, environment, problem);

  const report::Table table = rows(plan, effects, predictions, measured);
  const Driven driven{predictions[0], cost_model.info().unit, cost_model.explain(features)[0]};
  if (output.write(table, to_json(problem, plan, table, driven, features, measured))) return kDone;
  print(fmt::format(
      "{}\n{}\n{}{}{}\n{}", describe(problem), report::draw_block(plan), table.to_text(), kLegend,
      describe(measured, plan, database),
      fmt::format("predicted: {} {}, {} Performance\n", base::format_fixed(driven.prediction.time, 1),
                  driven.unit, driven.prediction.high ? "High" : "Low")));
  print(driving_features(driven.explanation, features, 0).to_text());
  return kDone;
}

}  // namespace fusetune::cli
