#include "cli/search_budget.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "measure/sampling.h"
#include "measure/timing.h"

namespace fusetune::cli {
namespace {

using nlohmann::json;

constexpr std::size_t kMostPast = 20;  // the newest: programs and machines change

std::string searches(int count) { return fmt::format("{} earlier search{}", count, count == 1 ? "" : "es"); }

Figure compile_figure(const BudgetInputs& inputs) {
  if (inputs.to_compile == 0) return {0, false, "all kernels are in the cache"};
  double seconds = 0;
  int kernels = 0, count = 0;
  for (const PastSearch& past : inputs.past) {
    if (past.time.compiled == 0) continue;
    seconds += past.time.compile_s;
    kernels += past.time.compiled;
    ++count;
  }
  if (kernels == 0) return {{}, false, "no earlier search on this device compiled anything"};
  return {seconds / kernels * static_cast<double>(inputs.to_compile), false,
          fmt::format("{} kernels of {} on this device", kernels, searches(count))};
}

bool is_alike(const PastSearch& past, const BudgetInputs& inputs) {
  return past.problem == inputs.problem && past.cache_mode == inputs.cache_mode &&
         past.settings == inputs.settings;
}

/// What the samples take that the timing protocol asks for, those of the reference included, after a warm-up.
/// Checking, starting workers and repeated samples come on top.
Figure protocol_figure(const Rehearsal& rehearsal, const BudgetInputs& inputs) {
  double seconds = 0;
  bool recorded = true;
  for (const double us : rehearsal.expected_us) {
    recorded = recorded && us > 0;
    seconds += measure::kWarmUpSeconds +
               measure::least_series_seconds(inputs.samples, std::max(inputs.min_sample_s, 1e-6 * us),
                                             std::max(inputs.min_sample_s, 1e-6 * inputs.reference_us));
  }
  return {seconds / inputs.devices, true,
          recorded ? "recorded times of this problem and the timing protocol" : "the timing protocol alone"};
}

Figure device_figure(const Rehearsal& rehearsal, const BudgetInputs& inputs) {
  if (rehearsal.to_measure() == 0) return {0, false, "nothing is left to measure"};
  double seconds = 0;
  int candidates = 0, count = 0;
  for (const PastSearch& past : inputs.past) {
    if (!is_alike(past, inputs) || past.time.measured == 0) continue;
    seconds += past.time.measure_s * past.time.devices;
    candidates += past.time.measured;
    ++count;
  }
  if (candidates == 0) return protocol_figure(rehearsal, inputs);
  return {seconds / candidates * static_cast<double>(rehearsal.to_measure()) / inputs.devices, false,
          fmt::format("{} candidates of {} of this problem", candidates, searches(count))};
}

Figure finals_figure(const Rehearsal& rehearsal, const BudgetInputs& inputs) {
  if (rehearsal.finals_known) return {0, false, "an earlier search compared the same plans"};
  double seconds = 0;
  int count = 0;
  for (const PastSearch& past : inputs.past) {
    if (!is_alike(past, inputs) || !(past.time.finals_s > 0)) continue;
    seconds += past.time.finals_s;
    ++count;
  }
  if (count == 0) return {{}, false, "no earlier search of this problem got there"};
  return {seconds / count, false, searches(count) + " of this problem"};
}

std::string seconds_text(double seconds) {
  return seconds > 0 && seconds < 10 ? fmt::format("{:.1f} s", seconds) : fmt::format("{:.0f} s", seconds);
}

std::string figure_text(const Figure& figure) {
  if (!figure.seconds) return "not known";
  return (figure.at_least ? "at least " : "") + seconds_text(*figure.seconds);
}

std::string line(const char* what, const std::string& figure, const std::string& source) {
  return fmt::format("  {:<12}{}{}\n", what, figure, source.empty() ? "" : "  (" + source + ")");
}

const char* name(Counts counts) {
  switch (counts) {
    case Counts::exact:
      return "exact";
    case Counts::about:
      return "about";
    case Counts::at_most:
      return "at most";
  }
  throw base::InternalError("counts without a name");
}

json figure_json(const Figure& figure) {
  return {{"seconds", figure.seconds ? json(*figure.seconds) : json()},
          {"at_least", figure.at_least},
          {"source", figure.source}};
}

/// Device and finals together.
Figure on_device(const Budget& budget) {
  if (!budget.device.seconds || !budget.finals.seconds) return {};
  return {*budget.device.seconds + *budget.finals.seconds, budget.device.at_least, {}};
}

/// --time-limit ends compiling and measuring, not the finals.
void limit(Budget& budget, double limit_s) {
  if (!budget.compile.seconds || !budget.device.seconds) return;
  const double seconds = *budget.compile.seconds + *budget.device.seconds;
  if (seconds <= limit_s) return;
  *budget.compile.seconds *= limit_s / seconds;
  *budget.device.seconds *= limit_s / seconds;
  budget.device.at_least = false;
  budget.ended_by_limit_s = limit_s;
}

}  // namespace

json to_json(const SearchTime& time) {
  return {{"total_s", time.total_s},     {"compile_s", time.compile_s}, {"compiled", time.compiled},
          {"measure_s", time.measure_s}, {"measured", time.measured},   {"finals_s", time.finals_s},
          {"devices", time.devices}};
}

std::vector<PastSearch> past_searches(std::span<const store::RunRecord> runs,
                                      const std::string& environment) {
  std::vector<PastSearch> past;
  for (const store::RunRecord& run : runs) {
    if (run.environment != environment || run.result.empty()) continue;
    const json result = json::parse(run.result, nullptr, false),
               options = json::parse(run.options, nullptr, false);
    if (!result.is_object() || !options.is_object() || !result.contains("took")) continue;
    const json& took = result["took"];
    past.push_back({run.problem,
                    options.value("cache_mode", ""),
                    options.value("settings", ""),
                    {.total_s = took.value("total_s", 0.0),
                     .compile_s = took.value("compile_s", 0.0),
                     .compiled = took.value("compiled", 0),
                     .measure_s = took.value("measure_s", 0.0),
                     .measured = took.value("measured", 0),
                     .devices = std::max(1, took.value("devices", 1)),
                     .finals_s = took.value("finals_s", 0.0)}});
    if (past.size() == kMostPast) break;
  }
  return past;
}

std::optional<double> Budget::total_s() const {
  if (!compile.seconds || !device.seconds || !finals.seconds) return std::nullopt;
  return *compile.seconds + *device.seconds + *finals.seconds;
}

Budget make_budget(const Rehearsal& rehearsal, const BudgetInputs& inputs) {
  Budget budget{.kernels = rehearsal.kernels,
                .plans = rehearsal.plans,
                .known = rehearsal.known,
                .to_measure = rehearsal.to_measure(),
                .to_compile = inputs.to_compile,
                .counts = rehearsal.counts,
                .compile = compile_figure(inputs),
                .device = device_figure(rehearsal, inputs),
                .finals = finals_figure(rehearsal, inputs)};
  if (inputs.time_limit_s) limit(budget, *inputs.time_limit_s);
  return budget;
}

Budget answered_budget(std::int64_t kernels, std::int64_t plans) {
  return make_budget({.kernels = kernels,
                      .plans = plans,
                      .known = kernels + plans,
                      .counts = Counts::exact,
                      .sources = {},
                      .expected_us = {},
                      .finals_known = true},
                     {});
}

Budget predict_budget(const std::string& strategy, measure::Session& session,
                      const measure::SessionOptions& session_options, store::TuningStore& store,
                      const SearchSettings& settings) {
  const std::string problem = session.problem().key(), environment = session.environment().fingerprint;
  const Rehearsal rehearsal = rehearse(strategy, session, store, settings);
  const std::vector<store::RunRecord> runs = store.runs();
  const std::vector<PastSearch> past = past_searches(runs, environment);
  return make_budget(
      rehearsal,
      {.problem = problem,
       .cache_mode = settings.cache_mode,
       .settings = settings.timing,
       .samples = session_options.samples,
       .devices = static_cast<int>(session.devices().size()),
       .min_sample_s = session_options.min_sample_seconds,
       .time_limit_s = settings.stop.seconds,
       .reference_us =
           store.reference_time(problem, environment, settings.cache_mode, settings.timing).value_or(0),
       .to_compile = static_cast<std::int64_t>(session.count_missing(rehearsal.sources)),
       .past = past});
}

std::string describe(const Budget& budget) {
  const std::string most = budget.counts == Counts::exact ? "" : fmt::format("{} ", name(budget.counts));
  std::string candidates = fmt::format("{}{} kernels", most, budget.kernels);
  if (budget.plans > 0) candidates += fmt::format(" and {} whole plans", budget.plans);
  std::string text = line("candidates",
                          fmt::format("{}: {} answered by the database, {}{} to be measured", candidates,
                                      budget.known, most, budget.to_measure),
                          "");
  text +=
      line("compile", fmt::format("{}{} kernels, {}", most, budget.to_compile, figure_text(budget.compile)),
           budget.compile.source);
  text += line("device", figure_text(budget.device), budget.device.source);
  text += line("finals", figure_text(budget.finals), budget.finals.source);
  const std::optional<double> total = budget.total_s();
  text += line("in all", figure_text({total, budget.device.at_least, {}}),
               budget.ended_by_limit_s
                   ? fmt::format("--time-limit {} ends it first", seconds_text(*budget.ended_by_limit_s))
                   : "");
  return text;
}

json to_json(const Budget& budget) {
  const std::optional<double> total = budget.total_s();
  return {{"kernels", budget.kernels},
          {"plans", budget.plans},
          {"known", budget.known},
          {"to_measure", budget.to_measure},
          {"to_compile", budget.to_compile},
          {"counts", name(budget.counts)},
          {"compile", figure_json(budget.compile)},
          {"device", figure_json(budget.device)},
          {"finals", figure_json(budget.finals)},
          {"ended_by_limit_s", budget.ended_by_limit_s ? json(*budget.ended_by_limit_s) : json()},
          {"total_s", total ? json(*total) : json()}};
}

std::string compare_with(const Budget& budget, const SearchTime& time) {
  const Figure device = on_device(budget);
  return fmt::format("predicted {} (compile {}, device {}), took {} (compile {}, device {})\n",
                     figure_text({budget.total_s(), budget.device.at_least, {}}), figure_text(budget.compile),
                     figure_text(device), seconds_text(time.total_s), seconds_text(time.compile_s),
                     seconds_text(time.measure_s + time.finals_s));
}

}  // namespace fusetune::cli
