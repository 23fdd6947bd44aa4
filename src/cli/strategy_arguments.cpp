#include "cli/strategy_arguments.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/number.h"
#include "base/text.h"
#include "base/tie_band.h"
#include "cli/command.h"
#include "cli/recorded_file.h"
#include "cli/recorded_segments.h"
#include "search/model_prior.h"
#include "search/plan_strategy.h"
#include "search/tile_tuning.h"
#include "store/tuning_store.h"

namespace fusetune::cli {
namespace {

constexpr const char* kAll = "all";

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

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

/// "all", "guided,random".
std::vector<std::string> parse_strategies(const std::string& text) {
  std::vector<std::string> known = comparable_strategies();
  if (text == kAll) return known;
  std::vector<std::string> names;
  for (const std::string& word : base::split(text, ',')) {
    if (std::find(known.begin(), known.end(), word) == known.end())
      throw base::UsageError(
          fmt::format("--strategies: '{}' is none of {}, and not {}", word, joined(known), kAll));
    if (std::find(names.begin(), names.end(), word) == names.end()) names.push_back(word);
  }
  return names;
}

/// The kernels that belong to the source's plans; `why` says what is missing where there are none.
std::optional<RecordedKernels> read_kernels(const TrainingSource& source, std::string& why) {
  if (source.fingerprint.empty()) {
    why = source.name + " has masks and values, not kernels";
    return std::nullopt;
  }
  const RecordedFile recorded(source.name);
  const store::TuningStore store(recorded.database(), {.access = store::Access::look});
  const store::Contents contents = store.contents({.problem = source.set.groups().front(),
                                                   .environment = source.fingerprint,
                                                   .cache_mode = source.cache_mode});
  std::vector<search::Recording> recordings = recorded_segments(contents, source.name);
  if (std::isinf(best_recorded(recordings, lower::CpuTarget()).best_sum_us())) {
    why = source.name + " has no times of kernels that make a plan of this problem";
    return std::nullopt;
  }
  return RecordedKernels{std::move(recordings), device_of(contents.environments.front().fields),
                         measuring_cost(contents)};
}

/// Of `guided` beside the others: how its cost is counted, a paragraph a line.
std::string kernel_legend(const RecordedKernels& kernels) {
  const MeasuringCost& cost = kernels.cost;
  const auto tuning = std::count_if(kernels.recordings.begin(), kernels.recordings.end(),
                                    [](const auto& one) { return search::is_lone_gemm(one.variant); });
  return fmt::format(
      "Trials: whole plans timed. guided times kernels first where the trials are enough for as many as "
      "there "
      "are variants, else plans as {6} does. A kernel counts as {0:.2f} of a trial: "
      "{1:.3f} s beside {2:.3f} s, by {3}. Without a number of trials it ran to its own end. Compiling is "
      "counted for none.\n"
      "The others first tune the four lone matrix products: at most {4} kernels, {5:.1f} trials, that are "
      "not counted for them. guided may miss plans that its kernels point to, as they were not recorded.\n",
      cost.kernel_trials(), cost.kernel_s, cost.plan_s, cost.source, tuning,
      static_cast<double>(tuning) * cost.kernel_trials(), search::kSmallBudgetStrategy);
}

/// What a figure means, a paragraph a line.
std::string legend(const StrategyComparison& comparison, const RecordedKernels* kernels, int repeats) {
  return fmt::format(
             "Regret: how much slower than the fastest of {0} recorded plans the best plan is that {1} "
             "timed. "
             "Found the best: searches whose plan is tied with that one, at most {2} % slower.\n"
             "Nobody can ask for a plan that was not recorded; {0} of {3} were.\n",
             comparison.recorded, repeats == 1 ? "a search" : fmt::format("each of {} searches", repeats),
             base::format_shortest(100 * base::kTieBand), plan::all_plans().size()) +
         (kernels == nullptr ? "" : kernel_legend(*kernels));
}

std::vector<search::TimedPlan> timed_plans(const TrainingSource& source) {
  std::vector<search::TimedPlan> plans;
  const auto examples = source.set.examples();
  for (std::size_t i = 0; i < examples.size(); ++i)
    plans.push_back({source.plans[i], examples[i].time, examples[i].uniform});
  return plans;
}

}  // namespace

void StrategyArguments::declare(Options& options) {
  options.group("Strategies instead of the model");
  options.text("--strategies", names_, "NAMES",
               "searches on the recorded times: all, or some of " + joined(comparable_strategies()));
  options.text("--replay", replay_, "FILE", "the recorded times: as --db");
  options.text("--trials", trials_, "N,N,...", "plans that a search may time; kernels count as their share");
  options.integer("--repeats", repeats_, "N", "searches of each kind, with seeds of their own", 1, 1000);
  options.text("--cost-model", cost_model_, "FILE",
               "`guided` begins with this model of kernels (train --segments), if it ranks those timed first "
               "well; default: none, as `shipped` was fitted to data/recorded");
  options.choice("--table", table_, {"budgets", "curves"},
                 "rows of --csv and --json: regret by number of trials, or the best so far after each trial");
  options.text("--chart", chart_, "FILE", "writes the best so far as a chart, one HTML page");
}

void StrategyArguments::check(const Options& options, const RowsOutput& output, TrainingArguments& source) {
  for (const char* name : {"--trials", "--cost-model", "--table", "--chart", "--replay"})
    if (options.given(name) && !wanted())
      throw base::UsageError(std::string(name) + " belongs to --strategies NAMES");
  if (options.given("--repeats") && !wanted() && !options.given("--audit"))
    throw base::UsageError("--repeats belongs to --strategies NAMES and --audit");
  if (!wanted()) return;
  options_.strategies = parse_strategies(names_);
  options_.trials = parse_trials(trials_);
  options_.repeats = repeats_;
  if (options.given("--table") && !output.wanted())
    throw base::UsageError("--table says which rows --csv or --json write: give one of these");
  if (replay_.empty()) return;
  if (!source.empty())
    throw base::UsageError("--replay is what is replayed: --data or --db cannot be given with it");
  source.set_database(replay_);
}

/// Leaves `guided` out of `strategies` where the source has no kernels for it; why is said.
std::optional<RecordedKernels> StrategyArguments::kernels_for(const TrainingSource& source,
                                                              std::vector<std::string>& strategies) const {
  if (std::find(strategies.begin(), strategies.end(), "guided") == strategies.end()) return std::nullopt;
  std::string why;
  std::optional<RecordedKernels> kernels = read_kernels(source, why);
  if (kernels) return kernels;
  if (names_ != kAll) throw base::UsageError("--strategies: guided times kernels, and " + why);
  base::note("guided is left out: it times kernels, and " + why);
  std::erase(strategies, "guided");
  return std::nullopt;
}

int StrategyArguments::run(const TrainingSource& source, std::uint64_t seed, const RowsOutput& output) const {
  const auto& groups = source.set.groups();
  if (groups.size() > 1)
    throw base::UsageError(
        fmt::format("--strategies compares them on one problem, and {} has {}: name one with --problem",
                    source.name, groups.size()));
  if (groups.empty()) return say_too_little(source.name + " has no plan with a time");
  ComparisonOptions options = options_;
  options.seed = seed;
  if (source.set.features().schema() == model::Schema::plan)
    options.problem = block::Problem::parse(groups.front());
  const std::optional<RecordedKernels> kernels = kernels_for(source, options.strategies);
  if (kernels && cost_model_ != kNoModel)
    options.priors = {std::make_shared<search::ModelPrior>(cost_model_, load_segment_model(cost_model_),
                                                           *options.problem, kernels->device)};
  const StrategyComparison comparison =
      compare_strategies(timed_plans(source), kernels ? &*kernels : nullptr, options);
  return show(comparison, kernels ? &*kernels : nullptr, source, output);
}

int StrategyArguments::show(const StrategyComparison& comparison, const RecordedKernels* kernels,
                            const TrainingSource& source, const RowsOutput& output) const {
  const report::Table budgets = budget_table(comparison, kernels);
  const std::vector<report::RegretCurve> curves = regret_curves(comparison);
  const std::string notes = legend(comparison, kernels, repeats_);
  if (!chart_.empty())
    base::write_file_atomic(
        chart_, report::to_html({.title = "fusetune: strategies on recorded plans",
                                 .curves = curves,
                                 .budgets = budgets,
                                 .notes = notes,
                                 .tie_band = base::kTieBand,
                                 .recorded = source.set.groups().front() + "\n" + source.environment}));
  const std::string time_key = source.unit == "us" ? "best_us" : "best_value";
  if (output.write(table_ == "curves" ? curve_table(comparison, time_key) : budgets)) return kDone;
  print(budgets.to_text() + "\nBest so far, mean regret in percent:\n" + short_curve_table(curves).to_text() +
        "\n" + notes);
  return kDone;
}

}  // namespace fusetune::cli
