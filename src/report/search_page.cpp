#include "report/search_page.h"

#include <fmt/chrono.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <map>
#include <optional>
#include <vector>

#include "plan/fusion_plan.h"
#include "report/block_drawing.h"
#include "report/json_path.h"
#include "report/page.h"
#include "report/search_json.h"

namespace fusetune::report {
namespace {

using measure::Outcome;

/// Everything that the sections are about.
struct Searched {
  const store::Contents& contents;
  const store::RunRecord& run;
  nlohmann::ordered_json result;  // null: the row has none, or none that can be read

  std::vector<store::ComparisonRecord> finalists() const {
    const auto found = contents.finalists.find(run.id);
    return found == contents.finalists.end() ? std::vector<store::ComparisonRecord>() : found->second;
  }
};

plan::FusionPlan plan_of(std::uint16_t mask) { return plan::FusionPlan::from_mask({mask}); }

std::string variant_text(int variant) {
  return plan::all_variants()[static_cast<std::size_t>(variant)].to_string();
}

std::string moment(std::int64_t seconds) {
  const auto time = static_cast<std::time_t>(seconds);
  std::tm utc{};
  return gmtime_r(&time, &utc) == nullptr ? "?" : fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", utc);
}

Cell time_cell(const measure::Measurement& measurement, double value) {
  return measurement.outcome == Outcome::ok ? Cell(value) : Cell();
}

Cell finite(double value) { return std::isfinite(value) ? Cell(value) : Cell(); }

void add_run(Page& page, const Searched& searched) {
  const store::RunRecord& run = searched.run;
  Table table({{"what", "run"}, {"value", std::to_string(run.id)}});
  table.add({std::string("problem"), run.problem});
  table.add({std::string("state"), std::string(store::name(run.state))});
  table.add({std::string("started"), moment(run.started)});
  if (run.finished) table.add({std::string("ended"), moment(*run.finished)});
  table.add({std::string("options"), run.options});
  page.table(table);
}

/// The row of a kernel as the plan has it; null: not there.
const store::TuningRecord* kernel_row(const store::Contents& contents, int variant,
                                      const std::string& schedule) {
  const store::TuningRecord* found = nullptr;
  for (const store::TuningRecord& record : contents.segments)
    if (record.key.variant == variant && record.schedule == schedule &&
        record.measurement.outcome == Outcome::ok)
      found = &record;  // the newest
  return found;
}

void add_kernels_of(Page& page, const Searched& searched, const plan::FusionPlan& plan,
                    const std::vector<std::string>& schedules) {
  Table table({{"kernel", "kernel"},
               {"alone_us", "alone, us", 1},
               {"mad_us", "MAD, us", 2},
               {"samples", "samples"},
               {"schedule", "schedule"}});
  const std::vector<plan::SegmentVariant> variants = plan.variants();
  for (std::size_t i = 0; i < variants.size(); ++i) {
    const std::string schedule = i < schedules.size() ? schedules[i] : "";
    const auto* const row = kernel_row(searched.contents, plan::variant_index(variants[i]), schedule);
    std::vector<Cell> cells = {variants[i].to_string()};
    if (row == nullptr) {
      cells.insert(cells.end(), 3, Cell());
    } else {
      const measure::TimingSummary& time = row->measurement.time;
      cells.insert(cells.end(), {time.median_us, time.mad_us, std::int64_t{time.count}});
    }
    cells.emplace_back(schedule);
    table.add(std::move(cells));
  }
  page.table(table);
}

void add_best(Page& page, const Searched& searched) {
  page.heading("Best plan");
  const auto mask = number_at(searched.result, {"best", "mask"});
  if (!mask || !(*mask >= 0 && *mask <= 0xffff) || *mask != std::floor(*mask))
    return page.paragraph("This search ended without one: its row names no best plan.");
  const plan::FusionPlan plan = plan_of(static_cast<std::uint16_t>(*mask));
  std::string text = fmt::format("mask {}  {}  {} kernel{}", plan.canonical_mask().value, plan.to_string(),
                                 plan.kernel_count(), plan.kernel_count() == 1 ? "" : "s");
  if (const auto us = number_at(searched.result, {"best", "time_us", "value"})) {
    text += fmt::format("\n{:.3f} ms", *us / 1e3);
    const auto low = number_at(searched.result, {"best", "time_us", "low"});
    const auto high = number_at(searched.result, {"best", "time_us", "high"});
    if (low && high) text += fmt::format("  (95 % interval {:.3f} – {:.3f})", *low / 1e3, *high / 1e3);
  }
  if (const auto speedup = number_at(searched.result, {"best", "speedup_over_unfused"}))
    text += fmt::format("  {:.2f} times as fast as unfused", *speedup);
  page.verbatim(text + "\n\n" + draw_line(plan, 100, 0));
  std::string tied;
  for (const double one : numbers_at(searched.result, {"tied"}))
    if (one != *mask) tied += fmt::format("{}{:.0f}", tied.empty() ? "" : ", ", one);
  if (!tied.empty())
    page.paragraph("Tied with it: mask " + tied +
                   ". Of those within 1 % of the fastest the one with fewer kernels counts.");
  add_kernels_of(page, searched, plan, texts_at(searched.result, {"best", "schedules"}));
}

std::string whole_over_sum_text(const store::ComparisonRecord& finalist) {
  if (!finalist.whole_over_sum) return {};
  const auto& parts = *finalist.whole_over_sum;
  return fmt::format("{:.3f} ({:.3f} – {:.3f})", parts.ratio, parts.low, parts.high);
}

void add_finalists(Page& page, const Searched& searched) {
  const std::vector<store::ComparisonRecord> finalists = searched.finalists();
  if (finalists.empty()) return;
  page.heading("Finalists");
  page.chart(
      "finalists",
      "Time over that of the baseline, the first of them: the median of alternating pairs and its 95 % "
      "interval, which holds for all of them together. The axis does not begin at 0.");
  Table table({{"mask", "mask"},
               {"plan", "plan"},
               {"kernels", "kernels"},
               {"outcome", "outcome"},
               {"ratio", "ratio", 4},
               {"low", "low", 4},
               {"high", "high", 4},
               {"pairs", "pairs"},
               {"median_us", "median, us", 1},
               {"whole_over_sum", "whole over sum of kernels"},
               {"message", "message"}});
  for (const store::ComparisonRecord& one : finalists) {
    const measure::Measurement& measurement = one.plan.measurement;
    const plan::FusionPlan plan = plan_of(one.plan.mask);
    table.add({std::int64_t{one.plan.mask}, plan.to_string(), std::int64_t{plan.kernel_count()},
               std::string(measure::name(measurement.outcome)), time_cell(measurement, one.ratio),
               time_cell(measurement, one.low), time_cell(measurement, one.high), std::int64_t{one.pairs},
               time_cell(measurement, measurement.time.median_us), whole_over_sum_text(one),
               measurement.message});
  }
  page.table(table);
  page.paragraph(
      "Medians are of each plan's own samples, taken at different moments: only the ratios compare plans.");
}

void add_claim(Page& page, const Searched& searched) {
  const auto alpha = number_at(searched.result, {"certificate", "alpha"});
  const auto gain = number_at(searched.result, {"certificate", "gain"});
  const auto kernels = number_at(searched.result, {"certificate", "kernels"});
  if (!alpha || !gain || !kernels) {
    const auto why = text_at(searched.result, {"no_certificate"});
    return page.paragraph("No certificate" + (why ? ": " + *why : std::string(" is recorded")) + ".");
  }
  page.paragraph(fmt::format(
      "If every plan takes at least {:.3f} of the sum of its segments, no plan over the {:.0f} kernels "
      "timed is more than {:.1f} % faster than the best one. Kernels that were not timed are outside "
      "this claim.",
      *alpha, *kernels, 100 * *gain));
}

/// The plan next to the best, where the comparison had another.
void add_runner_up(Page& page, const Searched& searched) {
  const auto mask = number_at(searched.result, {"runner_up", "mask"});
  const auto ratio = number_at(searched.result, {"runner_up", "ratio"});
  const auto low = number_at(searched.result, {"runner_up", "ratio_low"});
  if (!mask || !ratio || !low) return;
  const auto high = number_at(searched.result, {"runner_up", "ratio_high"});
  page.paragraph(fmt::format("Next to the best: mask {:.0f}, {:.3f} ({:.3f} – {}) times its time.", *mask,
                             *ratio, *low, high ? fmt::format("{:.3f}", *high) : "no upper limit"));
}

/// What a model left out, by which threshold, and what the audit of that found.
void add_pruning(Page& page, const Searched& searched) {
  const auto probability = number_at(searched.result, {"pruning", "threshold", "probability"});
  const auto chance = number_at(searched.result, {"pruning", "threshold", "chance"});
  const auto held_out = number_at(searched.result, {"pruning", "threshold", "held_out"});
  if (probability && chance && held_out)
    page.paragraph(fmt::format(
        "A model pruned kernels less probable than {:.3f} of the fast class: of that class {:.1f} % at most, "
        "by {:.0f} held out.",
        *probability, 100 * *chance, *held_out));
  const auto pruned = number_at(searched.result, {"pruning", "audit", "pruned"});
  const auto audited = number_at(searched.result, {"pruning", "audit", "audited"});
  const auto losses = number_at(searched.result, {"pruning", "audit", "losses"});
  const auto share = number_at(searched.result, {"pruning", "audit", "share_at_most"});
  if (!pruned || !audited || !losses || !share) return;
  const auto others = number_at(searched.result, {"pruning", "audit", "chance"});
  page.paragraph(fmt::format(
      "Audit: {:.0f} of {:.0f} pruned kernels were timed all the same. {:.0f} would have made the best plan "
      "more than 1 % faster, {:.0f} % of all at most (at 95 %). That the others hold one: {}.",
      *audited, *pruned, *losses, 100 * *share,
      others ? fmt::format("an estimated {:.0f} %", 100 * *others) : std::string("not known")));
}

/// A member of the run's result, and what to call it.
struct Figure {
  JsonPath path;
  const char* words;
};

void add_effort(Page& page, const Searched& searched) {
  const Figure figures[] = {{{"seconds"}, "seconds searched"},
                            {{"search", "measured"}, "measured now"},
                            {{"search", "reused"}, "known from earlier searches"},
                            {{"search", "compiled"}, "kernels compiled"},
                            {{"search", "pruned"}, "left out by a model"},
                            {{"search", "left"}, "left untimed otherwise"},
                            {{"search", "plans", "timed"}, "plans timed whole"},
                            {{"search", "plans", "predicted"}, "plans predicted"},
                            {{"model", "spearman"}, "its model: Spearman, held out"},
                            {{"model", "noise_ceiling"}, "its model: noise ceiling"},
                            {{"model", "auc"}, "its model: AUC"}};
  Table table({{"what", "what"}, {"value", "value", 2}});
  for (const Figure& figure : figures)
    if (const auto value = number_at(searched.result, figure.path)) {
      const bool whole = *value == std::floor(*value) && std::abs(*value) < 1e15;
      table.add({std::string(figure.words), whole ? Cell(static_cast<std::int64_t>(*value)) : Cell(*value)});
    }
  if (const auto prior = text_at(searched.result, {"prior", "used"}))
    table.add({std::string("began with what was expected by"), *prior});
  if (const auto stopped = text_at(searched.result, {"stopped"}); stopped && !stopped->empty())
    table.add({std::string("stopped early"), *stopped});
  if (table.size() == 0) return;
  page.heading("The search");
  page.table(table);
}

template <typename Record>
std::map<std::string, std::int64_t> outcomes_of(const std::vector<Record>& records) {
  std::map<std::string, std::int64_t> counts;
  for (const Record& record : records) ++counts[std::string(measure::name(record.measurement.outcome))];
  return counts;
}

void add_outcomes(Page& page, const Searched& searched) {
  page.heading("What became of everything tried");
  page.paragraph(
      "All recorded measurements of this problem on this device, of this search and of others: kernels "
      "alone, and "
      "plans timed whole.");
  Table table({{"outcome", "outcome"}, {"kernels", "kernels"}, {"plans", "plans"}});
  auto kernels = outcomes_of(searched.contents.segments), plans = outcomes_of(searched.contents.plans);
  std::map<std::string, std::int64_t> all = kernels;
  all.merge(std::map(plans));
  for (const auto& [outcome, count] : all) table.add({outcome, kernels[outcome], plans[outcome]});
  page.table(table);
}

void add_failures(Page& page, const Searched& searched) {
  Table table({{"outcome", "outcome"},
               {"what", "what"},
               {"schedule", "schedule"},
               {"message", "message"},
               {"repeat", "repeat"}});
  const auto add = [&](const store::Trial& trial, const std::string& what, const std::string& schedule) {
    if (trial.measurement.outcome == Outcome::ok) return;
    table.add({std::string(measure::name(trial.measurement.outcome)), what, schedule,
               trial.measurement.message, trial.repeat_command});
  };
  for (const store::TuningRecord& one : searched.contents.segments)
    add(one, variant_text(one.key.variant), one.schedule);
  for (const store::PlanRecord& one : searched.contents.plans) add(one, fmt::format("mask {}", one.mask), "");
  if (table.size() > 0) page.folded_table(fmt::format("{} without a time, and why", table.size()), table);
}

void add_plans(Page& page, const Searched& searched) {
  if (searched.contents.plans.empty()) return;
  page.heading("Plans timed whole");
  page.chart("plans", "Each plan with a time, fastest first: its median.");
  Table table({{"mask", "mask"},
               {"plan", "plan"},
               {"sampled", "chosen"},
               {"outcome", "outcome"},
               {"median_us", "median, us", 1},
               {"mad_us", "MAD, us", 1},
               {"samples", "samples"},
               {"sum_us", "sum of kernels, us", 1},
               {"how", "how"}});
  for (const store::PlanRecord& one : searched.contents.plans) {
    const measure::Measurement& measurement = one.measurement;
    table.add({std::int64_t{one.mask}, plan_of(one.mask).to_string(), std::string(store::name(one.sampled)),
               std::string(measure::name(measurement.outcome)),
               time_cell(measurement, measurement.time.median_us),
               time_cell(measurement, measurement.time.mad_us), std::int64_t{measurement.time.count},
               one.sum_us > 0 ? Cell(one.sum_us) : Cell(), how_measured(one)});
  }
  page.folded_table(fmt::format("all {}", table.size()), table);
}

void add_kernels(Page& page, const Searched& searched) {
  if (searched.contents.segments.empty()) return;
  page.heading("Kernels timed alone");
  page.chart(
      "samples",
      "Samples of the best plan's kernels in the order they were taken, each over its kernel's median: "
      "what the machine did meanwhile.");
  Table table({{"kernel", "kernel"},
               {"outcome", "outcome"},
               {"median_us", "median, us", 1},
               {"mad_us", "MAD, us", 2},
               {"samples", "samples"},
               {"slowdown", "reference over its own", 2},
               {"schedule", "schedule"},
               {"how", "how"}});
  for (const store::TuningRecord& one : searched.contents.segments) {
    const measure::Measurement& measurement = one.measurement;
    table.add({variant_text(one.key.variant), std::string(measure::name(measurement.outcome)),
               time_cell(measurement, measurement.time.median_us),
               time_cell(measurement, measurement.time.mad_us), std::int64_t{measurement.time.count},
               measurement.reference_us > 0 ? finite(measurement.slowdown) : Cell(), one.schedule,
               how_measured(one)});
  }
  page.folded_table(fmt::format("all {}", table.size()), table);
}

void add_environment(Page& page, const Searched& searched) {
  page.heading("Environment");
  Table table({{"field", "fingerprint"}, {"value", searched.run.environment}});
  for (const store::EnvironmentRecord& environment : searched.contents.environments)
    for (const auto& [field, value] : environment.fields) table.add({field, value});
  page.table(table);
}

void add_method(Page& page) {
  page.heading("Method");
  page.paragraph(
      "Every kernel was checked against a float64 reference before it was timed; what failed is kept with "
      "its "
      "reason and cannot be part of an answer. A sample repeats a kernel or plan until it lasts; samples "
      "during "
      "which other processes took CPU time were dropped. Where a row has a reference, its times are in units "
      "of "
      "the all-fused plan that was timed beside it, so that the machine's changing speed cancels. MAD: "
      "median "
      "absolute deviation of the samples.");
  page.paragraph(
      "The best plans were then timed whole, in alternating pairs with a baseline. Plans are tied where the "
      "interval of their ratio includes 1, or the ratio is within 0.5 %.");
}

}  // namespace

std::string search_page(const store::Contents& contents, const store::RunRecord& run) {
  const Searched searched{contents, run, parse_or_null(run.result)};
  Page page(fmt::format("fusetune search, run {}", run.id));
  add_run(page, searched);
  add_best(page, searched);
  add_finalists(page, searched);
  if (!searched.result.is_null()) {
    page.heading("Certificate");
    add_claim(page, searched);
    add_runner_up(page, searched);
    add_pruning(page, searched);
  }
  add_effort(page, searched);
  add_outcomes(page, searched);
  add_failures(page, searched);
  add_plans(page, searched);
  add_kernels(page, searched);
  add_environment(page, searched);
  add_method(page);
  return page.to_html(search_json(contents, run));
}

}  // namespace fusetune::report
