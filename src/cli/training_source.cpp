#include "cli/training_source.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <tuple>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/comparable_times.h"
#include "cli/output.h"
#include "cli/recorded_file.h"
#include "measure/statistics.h"
#include "model/training_data.h"
#include "store/plan_records.h"
#include "store/tuning_store.h"

namespace fusetune::cli {
namespace {

void set_halves(const std::vector<double>& values, model::Example& example) {
  std::tie(example.first_half, example.second_half) = measure::half_medians(values);
}

TrainingSource from_file(const std::string& file) {
  const model::TrainingData data = model::read_training_data(file);
  base::note(fmt::format("{}: {}", file, data.summary()));
  TrainingSource source{model::TrainingSet(model::Schema::plan_bits), "", "", file};
  model::Example example;
  example.group = source.set.group(std::filesystem::path(file).filename().string());
  source.set.count_left_out(data.left_out());
  for (const model::MeasuredMask& row : data.rows) {
    example.time = row.value;
    example.first_half = example.second_half = 0;
    set_halves(row.values, example);
    source.plans.push_back(plan::FusionPlan::from_mask(row.mask));
    source.set.add(source.plans.back(), example);
  }
  return source;
}

/// Every word of `wanted` is a word of the problem's text.
bool is_wanted(const std::string& problem, const std::string& wanted) {
  const std::vector<std::string> words = base::split(problem, ' ');
  for (const std::string& word : base::split(wanted, ' '))
    if (!word.empty() && std::find(words.begin(), words.end(), word) == words.end()) return false;
  return true;
}

/// By problem and mask: the fastest of a plan's measurements, which differ in schedules.
using BestTimes = std::map<std::pair<std::string, std::uint16_t>, store::PlanRecord>;

TrainingSource from_times(const BestTimes& times, const std::string& file,
                          const store::EnvironmentRecord& environment) {
  TrainingSource source{model::TrainingSet(model::Schema::plan), "us", describe(environment), file};
  std::map<std::string, model::ProblemFacts> facts;
  for (const auto& [key, record] : times) {
    const auto& [problem, mask] = key;
    if (!facts.contains(problem)) facts.emplace(problem, block::Problem::parse(problem));
    model::Example example;
    example.time = record.measurement.time.median_us;
    example.group = source.set.group(problem);
    example.uniform = record.sampled == store::Sampled::uniform;
    set_halves(record.measurement.samples_us, example);
    source.plans.push_back(plan::FusionPlan::from_mask({mask}));
    source.set.add(source.plans.back(), facts.at(problem), example);
  }
  return source;
}

/// The fastest time of each plan. `repeated`: rows of plans that had one already.
BestTimes fastest(const std::vector<store::PlanRecord>& plans, int& repeated) {
  BestTimes times;
  for (const store::PlanRecord& plan : plans) {
    const auto [place, is_new] = times.try_emplace({plan.problem, plan.mask}, plan);
    const bool was_uniform = place->second.sampled == store::Sampled::uniform;
    if (plan.measurement.time.median_us < place->second.measurement.time.median_us) place->second = plan;
    if (was_uniform) place->second.sampled = store::Sampled::uniform;
    repeated += !is_new;
  }
  return times;
}

TrainingSource from_database(const std::string& file, const std::string& environment_start,
                             const std::string& problem, const std::string& cache_mode) {
  store::PlanRecords records = store::read_plan_records(RecordedFile(file).database());
  if (records.environments.empty())
    throw base::UsageError(fmt::format("{} has no plan that was timed whole: run fusetune search", file));
  const store::EnvironmentRecord& environment = choose_environment(
      records.environments, environment_start, file, "--environment START chooses one by its fingerprint");
  std::erase_if(records.plans, [&](const store::PlanRecord& plan) {
    return plan.environment != environment.fingerprint || plan.cache_mode != cache_mode ||
           !is_wanted(plan.problem, problem);
  });
  const auto comparable = comparable_times(std::move(records.plans));
  int repeated = 0;
  const BestTimes times = fastest(comparable.rows, repeated);
  base::note(fmt::format("{}: {} plans of {}; {}; {} with other schedules, of which the fastest counts", file,
                         times.size(), describe(environment), comparable.left_out(), repeated));
  TrainingSource source = from_times(times, file, environment);
  source.fingerprint = environment.fingerprint;
  source.cache_mode = cache_mode;
  source.set.count_left_out(static_cast<int>(comparable.failed + comparable.other_units));
  return source;
}

/// Of every environment whose fingerprint begins so.
store::Contents contents_of(const std::string& file, const std::string& environment_start,
                            const std::string& problem, const std::string& cache_mode) {
  const RecordedFile recorded(file);
  const store::TuningStore database(recorded.database(), {.access = store::Access::look});
  store::Contents contents =
      database.contents({.problem = {}, .environment = environment_start, .cache_mode = cache_mode});
  std::erase_if(contents.segments,
                [&](const store::TuningRecord& record) { return !is_wanted(record.key.problem, problem); });
  std::erase_if(contents.plans,
                [&](const store::PlanRecord& record) { return !is_wanted(record.problem, problem); });
  return contents;
}

/// Kernels of every environment whose fingerprint begins so.
TrainingSource segments_from_database(const std::string& file, const std::string& environment_start,
                                      const std::string& problem, const std::string& cache_mode) {
  const store::Contents contents = contents_of(file, environment_start, problem, cache_mode);
  if (contents.segments.empty())
    throw base::UsageError(
        fmt::format("{} has no kernels that were timed alone in cache mode {}{}: run fusetune search", file,
                    cache_mode, environment_start.empty() ? "" : " on " + environment_start));
  SegmentSource segments = segment_source(contents, file);
  std::string environments;
  for (const store::EnvironmentRecord& environment : segments.environments)
    environments += (environments.empty() ? "" : "; ") + describe(environment);
  TrainingSource source{std::move(segments.set), "us", std::move(environments), file};
  source.cache_mode = cache_mode;
  source.segments = std::move(segments.groups);
  return source;
}

}  // namespace

void TrainingArguments::declare(Options& options) {
  options.text("--data", data_, "FILE",
               "lines of sixteen binary digits and a value, smaller is better, or the same as JSON");
  options.text(
      "--db", database_, "FILE",
      "instead: whole plans that searches recorded; also what `db export` wrote (.jsonl, .jsonl.gz)");
  options.flag("--segments", segments_, "of --db: kernels of single segments instead of whole plans");
  options.text("--environment", environment_, "START",
               "of --db: start of the fingerprint; default: the only one, of kernels all together");
  options.text("--problem", problem_, "WORDS",
               "of --db: only problems with these words, such as 'batch=1 mask=full'");
  options.choice("--cache", cache_, {"model", "warm", "cold"}, "of --db: cache mode of the measurements");
}

TrainingSource TrainingArguments::read() const {
  if (data_.empty() == database_.empty())
    throw base::UsageError(
        "what recorded times? Either --data FILE, lines of a mask and a value, or --db FILE, measurements of "
        "searches or what `db export` wrote of them");
  const std::string& recorded = data_.empty() ? database_ : data_;
  if (of_segments()) {
    if (!data_.empty() && !is_recorded_lines(data_))
      throw base::UsageError("--segments: " + data_ + " has masks and values, not kernels; --db has them");
    return segments_from_database(recorded, environment_, problem_, cache_);
  }
  return data_.empty() || is_recorded_lines(data_) ? from_database(recorded, environment_, problem_, cache_)
                                                   : from_file(data_);
}

RecordedRows TrainingArguments::rows() const {
  if (database_.empty()) throw base::UsageError("which recorded measurements? --db FILE has them");
  store::Contents contents = contents_of(database_, environment_, problem_, cache_);
  if (contents.environments.empty())
    throw base::UsageError(fmt::format("{} has nothing of an environment {}", database_, environment_));
  const std::string chosen = choose_environment(contents.environments, environment_, database_,
                                                "--environment START chooses one by its fingerprint")
                                 .fingerprint;
  if (contents.environments.size() > 1) contents = contents_of(database_, chosen, problem_, cache_);
  return {std::move(contents), database_};
}

int say_too_little(const std::string& what) {
  flush_output();
  std::fprintf(stderr, "fusetune: %s\n", what.c_str());
  return kBadAnswer;
}

}  // namespace fusetune::cli
