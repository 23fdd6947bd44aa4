#include "cli/search_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <ranges>
#include <utility>

#include "base/text.h"
#include "cli/certificate_report.h"
#include "cli/final_times.h"
#include "cli/prior_report.h"
#include "cli/pruning_report.h"
#include "measure/statistics.h"
#include "report/block_drawing.h"
#include "search/certificate.h"

namespace fusetune::cli {
namespace {

constexpr std::size_t kFailuresShown = 5;
constexpr int kWidth = 100;

/// Two numbers and their unit in the scale of the first: microseconds below a millisecond.
struct Scale {
  double divisor;
  const char* unit;
  int digits;
};
Scale scale_of(double us) {
  if (us < 1e3) return {1, "us", 1};
  if (us < 1e6) return {1e3, "ms", 3};
  return {1e6, "s", 3};
}

const store::ComparisonRecord* find(const FinalResult& result, const plan::FusionPlan& plan) {
  for (const store::ComparisonRecord& finalist : result.finalists) {
    if (plan_of(finalist) == plan && is_ok(finalist)) return &finalist;
  }
  return nullptr;
}

/// Times faster than unfused: both ratios have the same baseline, which cancels. 0: unfused has no time.
double against_unfused(const FinalResult& result, const store::ComparisonRecord& finalist) {
  const store::ComparisonRecord* unfused = find(result, plan::FusionPlan::unfused());
  return unfused == nullptr ? 0 : unfused->ratio / finalist.ratio;
}

std::string time_row(const std::string& label, const FinalResult& result,
                     const store::ComparisonRecord& finalist) {
  const FinalTime time = time_of(result, finalist);
  const Scale scale = scale_of(time.us);
  const double speedup = against_unfused(result, finalist);
  return fmt::format("  {:<24}{:>9.{}f} {:<3}{:>10.{}f} – {:<10.{}f}{}\n", label, time.us / scale.divisor,
                     scale.digits, scale.unit, time.low_us / scale.divisor, scale.digits,
                     time.high_us / scale.divisor, scale.digits,
                     speedup > 0 ? fmt::format("{:>6.2f}x", speedup) : "     –");
}

std::string failed_row(const std::string& label, const std::string& why) {
  return fmt::format("  {:<24}{}\n", label, why);
}

/// The first segment of a plan that has no time.
std::string missing_time(const Searcher& searcher, const plan::FusionPlan& plan) {
  for (const plan::SegmentVariant& variant : plan.variants()) {
    if (!searcher.schedule(plan::variant_index(variant))) return variant.to_string();
  }
  return "the whole plan";
}

std::string reference_rows(const Searcher& searcher, const FinalResult& result) {
  std::string text;
  for (const search::ReferencePlan& row : std::views::reverse(search::reference_plans())) {
    const std::string label = fmt::format("{} {}", row.name, row.plan.canonical_mask().value);
    const auto found = std::find_if(result.finalists.begin(), result.finalists.end(),
                                    [&](const auto& finalist) { return plan_of(finalist) == row.plan; });
    if (found == result.finalists.end()) {
      text += failed_row(label, fmt::format("not timed: no time for {}", missing_time(searcher, row.plan)));
    } else if (is_ok(*found)) {
      text += time_row(label, result, *found);
    } else {
      text += failed_row(label, std::string(measure::name(found->plan.measurement.outcome)));
    }
  }
  return text;
}

/// Of plans of several kernels: one kernel is its own sum.
std::string whole_over_sum_line(const FinalResult& result) {
  int asked = 0, answered = 0;
  for (const store::ComparisonRecord& finalist : result.finalists) {
    if (!is_ok(finalist) || plan_of(finalist).kernel_count() == 1) continue;
    ++asked;
    answered += finalist.whole_over_sum.has_value();
  }
  if (asked == 0) return {};
  const std::string of = asked == answered ? "" : fmt::format("{} of ", answered);
  const auto range = whole_over_sum(result);
  return range
             ? fmt::format(
                   "whole plan over the sum of its segments, timed in turn: {:.3f} – {:.3f} ({}{} plan{})\n",
                   range->first, range->second, of, asked, asked == 1 ? "" : "s")
             : fmt::format(
                   "whole plan over the sum of its segments: not measured of {} plan{} of several "
                   "kernels, the machine was too busy or it was interrupted\n",
                   asked, asked == 1 ? "" : "s");
}

std::string ties(const FinalResult& result) {
  std::string text;
  for (const std::size_t index : result.decision.tied) {
    if (index == result.decision.winner) continue;
    const store::ComparisonRecord& tied = result.finalists[index];
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", tied.plan.mask, plan_of(tied).to_string());
  }
  if (text.empty()) return {};
  return fmt::format(
      "  tied with it (of those within 1 % of the fastest the one with fewer kernels counts): {}\n", text);
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

/// The command checks a candidate; what other programs did to its times it cannot bring back.
bool is_repeatable(const FailedCandidate& failed) { return failed.outcome != measure::Outcome::noisy; }

std::string failure_lines(const SearchReport& report, const std::vector<FailedCandidate>& failures) {
  const std::size_t shown = report.verbose ? failures.size() : std::min(failures.size(), kFailuresShown);
  std::string text;
  for (std::size_t i = 0; i < shown; ++i) {
    const FailedCandidate& failed = failures[i];
    text +=
        fmt::format("  {} {}: {}\n", measure::name(failed.outcome), failed.name, first_line(failed.message));
    if (is_repeatable(failed)) text += fmt::format("    repeat: {}\n", failed.repeat_command);
  }
  if (shown < failures.size()) {
    text += fmt::format("  and {} more (--verbose shows all)\n", failures.size() - shown);
  }
  if (!std::all_of(failures.begin(), failures.end(), is_repeatable))
    text += fmt::format(
        "  what is noisy has three attempts, those of later searches counted; for more of them, on a quiet "
        "machine:\n    fusetune db prune --outcome noisy --problem {} --db {}\n",
        base::quote_for_shell(report.problem_key), base::quote_for_shell(report.database));
  return text;
}

std::string library_line(const SearchReport& report) {
  if (!report.library) return {};
  const lower::GpuLibrary& library = *report.library;
  return library.version.empty()
             ? fmt::format("no library's matrix products among the candidates: {}\n", library.missing)
             : fmt::format("matrix products of {} among the candidates\n", library.version);
}

nlohmann::json library_json(const SearchReport& report) {
  if (!report.library) return nullptr;
  return {{"version", report.library->version}, {"missing", report.library->missing}};
}

/// The winner's segments that are the library's products.
std::string winners_library_line(const SearchReport& report, const store::ComparisonRecord& winner) {
  if (!report.library) return {};
  std::string segments;
  const std::vector<plan::SegmentVariant> variants = plan_of(winner).variants();
  for (std::size_t i = 0; i < variants.size() && i < winner.plan.schedules.size(); ++i)
    if (lower::GpuSchedule::parse(winner.plan.schedules[i]).product == lower::GpuProduct::library)
      segments += " " + variants[i].to_string();
  return segments.empty()
             ? std::string()
             : fmt::format("  by {}, not by kernels of its own:{}\n", report.library->version, segments);
}

std::string schedule_lines(const store::ComparisonRecord& winner) {
  std::string text = "  schedules\n";
  const std::vector<plan::SegmentVariant> variants = plan_of(winner).variants();
  for (std::size_t i = 0; i < variants.size() && i < winner.plan.schedules.size(); ++i) {
    text += fmt::format("    {:<8} {}\n", variants[i].to_string(), winner.plan.schedules[i]);
  }
  return text;
}

std::string next_commands(const SearchReport& report, const FinalResult& result) {
  const std::uint16_t best = result.winner().plan.mask;
  const auto masks = search::reference_plans();
  std::string others;
  for (const search::ReferencePlan& reference : masks) {
    const std::uint16_t mask = reference.plan.canonical_mask().value;
    if (mask != best) others += fmt::format(" {}", mask);
  }
  std::string text = fmt::format("saved in {}, run {}.   next:\n", report.database, report.run);
  text += fmt::format("  fusetune bench {}{}{}\n", best, others, report.options);
  for (const char* command : {"profile", "verify", "run"})
    text += fmt::format("  fusetune {} {}{}\n", command, best, report.options);
  text += fmt::format("  fusetune export best --out bundle{}\n", report.options);
  if (report.generate_options)
    text += fmt::format("  fusetune generate {} --out kernels.out{}\n", best, *report.generate_options);
  return text;
}

const char* basis_text(search::Basis basis) {
  switch (basis) {
    case search::Basis::sum:
      return "the sum of its segments";
    case search::Basis::whole:
      return "its time in the screening";
    case search::Basis::model:
      return "the time predicted for it";
  }
  return "";
}

std::string continue_line(const SearchReport& report) {
  return fmt::format("everything measured is in {}; to continue:\n  fusetune search{}\n", report.database,
                     report.search_options);
}

nlohmann::json time_json(const measure::TimingSummary& time) {
  return {
      {"median_us", time.median_us}, {"mad_us", time.mad_us}, {"min_us", time.min_us}, {"count", time.count}};
}

/// Of GroupScore, with the words for them.
struct ModelFigure {
  const char* key;
  const char* word;
  double model::GroupScore::*value;
};
constexpr ModelFigure kModelFigures[] = {
    {"spearman", "Spearman", &model::GroupScore::spearman},
    {"noise_ceiling", "noise ceiling", &model::GroupScore::noise_ceiling},
    {"auc", "AUC", &model::GroupScore::auc},
    {"kept", "share kept", &model::GroupScore::kept}};

std::string model_line(const SearchReport& report) {
  if (!report.model) return {};
  std::string text = fmt::format("model of {} {}, each fifth predicted from the others:", report.model->rows,
                                 report.model_of);
  const char* separator = " ";
  for (const ModelFigure& figure : kModelFigures) {
    const double value = (*report.model).*figure.value;
    text += fmt::format("{}{} {}", separator, figure.word,
                        std::isfinite(value) ? fmt::format("{:.2f}", value) : "not known");
    separator = ", ";
  }
  return text + "\n";
}

nlohmann::json model_json(const SearchReport& report) {
  if (!report.model) return {};
  nlohmann::json json = {{"of", report.model_of}, {"rows", report.model->rows}};
  for (const ModelFigure& figure : kModelFigures)
    json[figure.key] = number_or_null((*report.model).*figure.value);
  return json;
}

nlohmann::json finalist_json(const FinalResult& result, const store::ComparisonRecord& finalist) {
  nlohmann::json json = {{"mask", finalist.plan.mask},
                         {"plan", plan_of(finalist).to_string()},
                         {"kernels", plan_of(finalist).kernel_count()},
                         {"schedules", finalist.plan.schedules},
                         {"outcome", std::string(measure::name(finalist.plan.measurement.outcome))},
                         {"message", finalist.plan.measurement.message}};
  if (!is_ok(finalist)) return json;
  const FinalTime time = time_of(result, finalist);
  json["time_us"] = {{"value", time.us}, {"low", time.low_us}, {"high", number_or_null(time.high_us)}};
  json["time"] = time_json(finalist.plan.measurement.time);  // its own samples: not to be compared
  if (finalist.plan.sum_us > 0) json["sum_us"] = finalist.plan.sum_us;
  if (const auto& parts = finalist.whole_over_sum) {
    json["whole_over_sum"] = {
        {"ratio", parts->ratio}, {"low", parts->low}, {"high", number_or_null(parts->high)}};
  }
  json["ratio"] = finalist.ratio;
  json["ratio_low"] = finalist.low;
  json["ratio_high"] = number_or_null(finalist.high);
  json["pairs"] = finalist.pairs;
  if (const double speedup = against_unfused(result, finalist); speedup > 0)
    json["speedup_over_unfused"] = speedup;
  return json;
}

/// Of one stage.
nlohmann::json counts_json(const SearchCounts& counts) {
  nlohmann::json outcomes = nlohmann::json::object(), failures = nlohmann::json::array();
  for (const auto& [outcome, count] : counts.outcomes) outcomes[std::string(measure::name(outcome))] = count;
  for (const FailedCandidate& failed : counts.failures) {
    failures.push_back(
        {{"candidate", failed.name},
         {"schedule", failed.schedule},
         {"outcome", std::string(measure::name(failed.outcome))},
         {"message", failed.message},
         {"repeat", is_repeatable(failed) ? nlohmann::json(failed.repeat_command) : nlohmann::json()}});
  }
  return {{"reused", counts.reused},
          {"measured", counts.measured},
          {"compiled", counts.compile_seconds.size()},
          {"median_compile_seconds", counts.compile_seconds.empty()
                                         ? nlohmann::json()
                                         : nlohmann::json(measure::median(counts.compile_seconds))},
          {"outcomes", outcomes},
          {"failures", failures}};
}

nlohmann::json search_json(const SearchReport& report, const Searcher& searcher) {
  nlohmann::json json = counts_json(searcher.counts());
  nlohmann::json plans;
  if (const auto whole = searcher.plan_counts())
    plans = {{"timed", whole->timed}, {"predicted", whole->predicted}};
  const auto [pruned, left, proved] = searcher.untimed();
  json.update({{"timed", searcher.timed_count()},
               {"pruned", pruned},
               {"left", left},
               {"proved", proved},
               {"plans", plans},
               {"tuned", report.tuned.candidates() > 0 ? counts_json(report.tuned) : nlohmann::json()}});
  return json;
}

/// What each of several devices did; empty for one.
std::string device_line(const SearchReport& report) {
  if (report.devices.size() < 2) return {};
  std::string text;
  for (const measure::DeviceUse& device : report.devices)
    text += fmt::format("{}{} measured {}{}", text.empty() ? "" : ", ", device.name, device.measured,
                        device.lost ? " and was lost" : "");
  return text + "\n";
}

/// Which of several devices all plans were compared on; empty for one.
std::string compared_on_line(const SearchReport& report, const FinalResult& result) {
  if (report.devices.size() < 2) return {};
  const std::string& uuid = result.winner().plan.measurement.device_uuid;
  for (const measure::DeviceUse& device : report.devices)
    if (device.uuid == uuid) return fmt::format("  all plans compared on {}\n", device.name);
  return {};  // by an earlier search, on another
}

nlohmann::json text_or_null(const std::string& text) {
  return text.empty() ? nlohmann::json() : nlohmann::json(text);
}

nlohmann::json devices_json(const SearchReport& report) {
  nlohmann::json devices = nlohmann::json::array();
  for (const measure::DeviceUse& device : report.devices)
    devices.push_back({{"name", device.name},
                       {"uuid", text_or_null(device.uuid)},
                       {"measured", device.measured},
                       {"lost", device.lost}});
  return devices;
}

}  // namespace

SearchCounts all_counts(const SearchReport& report, const Searcher& searcher) {
  SearchCounts counts = report.tuned;
  counts.add(searcher.counts());
  return counts;
}

std::string describe_trials(const SearchReport& report, const Searcher& searcher) {
  const SearchCounts counts = all_counts(report, searcher);
  std::string outcomes;
  for (const auto& [outcome, count] : counts.outcomes)
    outcomes += fmt::format(", {} {}", count, measure::name(outcome));
  std::string text = fmt::format("{}      {}\n", report.problem_line, report.environment_line);
  const int tuned = report.tuned.candidates();
  text += fmt::format("{}{}, {} candidates, {} measurements made now, {} reused{}     {:.0f} s\n",
                      tuned > 0 ? fmt::format("tiles of {} kernels tuned, ", tuned) : "", searcher.summary(),
                      counts.candidates(), counts.measured, counts.reused, outcomes, report.seconds);
  text += library_line(report);
  if (const auto& seconds = counts.compile_seconds; !seconds.empty()) {
    text += fmt::format("{} kernel{} compiled now, {:.0f} ms each in the median\n", seconds.size(),
                        seconds.size() == 1 ? "" : "s", 1e3 * measure::median(seconds));
  }
  if (counts.reference_us > 0) {
    text += fmt::format(
        "timed beside the all-fused plan, whose time counts as {:.3f} ms; it took {:.2f} – {:.2f} times "
        "that\n",
        counts.reference_us / 1e3, counts.least_slowdown, counts.most_slowdown);
  }
  text += device_line(report);
  text += describe_priors(searcher.prior_tests()) + model_line(report);
  text += describe_pruning(report.threshold, searcher);
  if (!report.stopped.empty())
    text += fmt::format("stopped early, {}: run it again to continue\n", report.stopped);
  return text + failure_lines(report, counts.failures);
}

std::string describe_result(const SearchReport& report, const Searcher& searcher, const FinalResult& result) {
  const store::ComparisonRecord& winner = result.winner();
  const plan::FusionPlan plan = plan_of(winner);
  std::string text = describe_trials(report, searcher);
  text += fmt::format("\nbest plan  mask {}  {}  {} kernel{}{}\n", winner.plan.mask, plan.to_string(),
                      plan.kernel_count(), plan.kernel_count() == 1 ? "" : "s",
                      result.reused ? "  (timed by an earlier search)" : "");
  text += report::draw_line(plan, kWidth, 2);
  if (!text.ends_with('\n')) text += '\n';
  if (plan.hand_written()) text += "  * hand-written attention\n";
  text += winners_library_line(report, winner);
  if (report.verbose) text += schedule_lines(winner);
  text += fmt::format("\n  {:<24}{:>12}{:>24}{:>14}\n", "", "time", "95 % interval", "vs unfused");
  text += time_row("best", result, winner) + ties(result) + reference_rows(searcher, result);
  text += compared_on_line(report, result);
  text += whole_over_sum_line(result) + describe_certificate(result, searcher, report.epsilon);
  text += next_commands(report, result);
  return report.predicted ? text + compare_with(*report.predicted, report.took) : text;
}

std::string describe_interrupted(const SearchReport& report, const Searcher& searcher) {
  std::string text = describe_trials(report, searcher);
  const std::vector<search::Finalist> finalists = searcher.finalists();
  if (finalists.empty()) {
    text += "interrupted before a complete plan had times\n";
  } else {
    const search::Finalist& best = finalists.front();
    const Scale scale = scale_of(best.expected_us);
    text += fmt::format("interrupted; best so far, by {}: mask {}  {}  {:.{}f} {}\n", basis_text(best.basis),
                        best.plan.canonical_mask().value, best.plan.to_string(),
                        best.expected_us / scale.divisor, scale.digits, scale.unit);
  }
  return text + continue_line(report);
}

std::string describe_nothing(const SearchReport& report, const Searcher& searcher, const std::string& why) {
  return describe_trials(report, searcher) + "no plan found: " + why + "\n" + continue_line(report);
}

std::string result_json(const SearchReport& report, const Searcher& searcher, const FinalResult* result,
                        const std::string& state) {
  nlohmann::json json = {{"state", state},
                         {"problem", report.problem_key},
                         {"environment", report.fingerprint},
                         {"run", report.run},
                         {"database", report.database},
                         {"seconds", report.seconds},
                         {"stopped", report.stopped},
                         {"search", search_json(report, searcher)},
                         {"library", library_json(report)},
                         {"prior", priors_json(searcher.prior_tests())},
                         {"model", model_json(report)},
                         {"pruning", pruning_json(report.threshold, searcher)},
                         {"predicted", report.predicted ? to_json(*report.predicted) : nlohmann::json()},
                         {"took", to_json(report.took)},
                         {"devices", devices_json(report)}};
  if (result != nullptr) {
    json["best"] = finalist_json(*result, result->winner());
    json["reused_comparison"] = result->reused;
    json["compared_on"] = text_or_null(result->winner().plan.measurement.device_uuid);
    nlohmann::json tied = nlohmann::json::array(), finalists = nlohmann::json::array();
    for (const std::size_t index : result->decision.tied) tied.push_back(result->finalists[index].plan.mask);
    for (const store::ComparisonRecord& finalist : result->finalists)
      finalists.push_back(finalist_json(*result, finalist));
    json["tied"] = tied;
    json["finalists"] = finalists;
    json["whole_over_sum"] = nlohmann::json();
    if (const auto range = whole_over_sum(*result))
      json["whole_over_sum"] = {{"low", range->first}, {"high", range->second}};
    add_certificate(json, *result, searcher, report.epsilon);
    json["references"] = nlohmann::json::object();
    for (const search::ReferencePlan& reference : search::reference_plans()) {
      json["references"][std::string(reference.name)] = reference.plan.canonical_mask().value;
    }
  }
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace fusetune::cli
