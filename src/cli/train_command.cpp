// train: fits the cost model and says how good it is on plans it has not seen.
#include <fmt/core.h>

#include <filesystem>
#include <map>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/model_options.h"
#include "cli/output.h"
#include "cli/training_source.h"
#include "model/evaluation.h"
#include "model/model_file.h"

namespace fusetune::cli {
namespace {

namespace fs = std::filesystem;

/// Asked before the work, so that nobody waits for a model that has no place.
void check_target(const std::string& file) {
  std::error_code ignored;
  const fs::file_status status = fs::status(file, ignored);
  if (file.empty() || (fs::exists(status) && !fs::is_regular_file(status)))
    throw base::UsageError(
        fmt::format("--out '{}': expected the name of a file, a second one goes beside it", file));
}

/// Kernels: every problem, predicted by a model fitted to the others. Plans, and kernels of one problem: a
/// fifth, predicted by a model fitted to the others.
std::map<std::string, double> held_out_metrics(const TrainingSource& source,
                                               const model::TrainOptions& options) {
  std::vector<std::string> problems;
  for (const SegmentGroup& group : source.segments) problems.push_back(group.problem);
  const bool by_problem = std::set<std::string>(problems.begin(), problems.end()).size() > 1;
  const model::Evaluation evaluation = by_problem ? model::cross_validate_parts(source.set, options, problems)
                                                  : model::cross_validate_plans(source.set, options, 5, 1);
  return evaluation.missing.empty() ? model::summarize(evaluation) : std::map<std::string, double>{};
}

std::vector<std::pair<const char*, const char*>> shown_metrics() {
  return {{"spearman", "Spearman"}, {"auc", "AUC"}, {"precision", "precision"}, {"recall", "recall"}};
}

std::string describe(const model::ModelInfo& info) {
  const char* const what = info.schema == model::Schema::segment ? "kernels" : "plans";
  std::string text =
      fmt::format("fitted to {} {}, {} of them High Performance\n", info.rows, what, info.high_rows);
  if (info.metrics.empty())
    return text + fmt::format("too few {} to hold some out and try the model on them\n", what);
  text += fmt::format("on {:.0f} {} held out:", info.metrics.at("rows"), what);
  const char* separator = " ";
  for (const auto& [key, word] : shown_metrics()) {
    const auto value = info.metrics.find(key);
    text += fmt::format("{}{} {}", separator, word,
                        value == info.metrics.end() ? "not known" : fmt::format("{:.3f}", value->second));
    separator = ", ";
  }
  return text + "\n";
}

/// Empty where the figure is not known.
report::Cell cell_of(const std::map<std::string, double>& metrics, const std::string& key) {
  const auto value = metrics.find(key);
  if (value == metrics.end()) return std::monostate();
  return value->second;
}

report::Table row_of(const model::ModelInfo& info, const std::string& file) {
  std::vector<report::Column> columns = {{"model", "model"},
                                         {"schema", "schema"},
                                         {"rows", "rows"},
                                         {"high_rows", "High rows"},
                                         {"left_out", "left out"}};
  std::vector<report::Cell> cells = {file, std::string(model::name(info.schema)), info.rows, info.high_rows,
                                     info.left_out};
  for (const auto& [key, word] : shown_metrics()) {
    columns.push_back({fmt::format("held_out_{}", key), word});
    cells.push_back(cell_of(info.metrics, key));
  }
  report::Table table(std::move(columns));
  table.add(std::move(cells));
  return table;
}

void note_bias(const model::ModelInfo& info) {
  if (info.groups_without_uniform == 0) return;
  base::note(fmt::format(
      "note: {} of {} problems have no plans that are known to be sampled uniformly: High Performance is the "
      "fastest {} of all that were measured, which a search chose for being fast",
      info.groups_without_uniform, info.groups.size(), info.options.high_fraction));
}

}  // namespace

int run_train(Options& options) {
  TrainingArguments arguments;
  ModelOptions fit;
  std::string file = kDefaultModel;
  RowsOutput output;
  arguments.declare(options);
  options.text("--out", file, "FILE", "the model; what it was made from goes beside it");
  fit.declare(options);
  output.declare(options);
  options.parse();
  output.check();
  check_target(file);

  const model::TrainOptions train_options = fit.options();
  const TrainingSource source = arguments.read();
  model::Trained trained = model::CostModel::train(source.set, train_options);
  if (!trained.model)
    return say_too_little(
        fmt::format("no model from {}: {}; {} stays as it was", source.name, trained.missing, file));
  model::ModelInfo& info = trained.model->info();
  info.unit = source.unit;
  info.environment = source.environment;
  info.program = "fusetune " FUSETUNE_VERSION;
  info.metrics = held_out_metrics(source, train_options);
  note_bias(info);
  trained.model->save(file);
  if (output.write(row_of(info, file))) return kDone;
  if (arguments.of_segments()) {
    print(fmt::format("{}saved in {} and {}.   next:  fusetune search --strategy guided --cost-model {}\n",
                      describe(info), file, model::sidecar_of(file).string(), base::quote_for_shell(file)));
    return kDone;
  }
  const std::string option = file == kDefaultModel ? "" : " --cost-model " + base::quote_for_shell(file);
  print(fmt::format("{}saved in {} and {}.   next:  fusetune predict 0100010111011101{}\n", describe(info),
                    file, model::sidecar_of(file).string(), option));
  return kDone;
}

}  // namespace fusetune::cli
