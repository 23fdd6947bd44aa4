#include "cli/segment_source.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <utility>

#include "base/log.h"
#include "base/text.h"
#include "cli/comparable_times.h"
#include "cli/recorded_segments.h"
#include "measure/statistics.h"
#include "search/fast_class.h"
#include "search/space.h"

namespace fusetune::cli {
namespace {

/// The words of a problem's key that say how large it is.
constexpr std::array<std::string_view, 6> kSizes = {"batch", "seq", "heads", "head_size", "ffn", "layers"};

SegmentGroup group_of(const std::string& problem, const std::string& environment) {
  SegmentGroup group{problem, "", "", environment};
  for (const std::string& word : base::split(problem, ' ')) {
    const std::string name = word.substr(0, word.find('='));
    if (name == "mask") group.mask = word;
    if (std::find(kSizes.begin(), kSizes.end(), name) != kSizes.end())
      group.size += (group.size.empty() ? "" : " ") + word;
  }
  return group;
}

/// A kernel of one problem on one environment, with its time.
struct TimedKernel {
  search::Candidate candidate;
  const measure::Measurement* measurement;
};

void add_group(const std::vector<TimedKernel>& kernels, const model::ProblemFacts& facts,
               const model::Device& device, std::size_t group, model::TrainingSet& set) {
  search::Incumbents best;
  for (const TimedKernel& one : kernels)
    best.tell(one.candidate, {.ok = true, .time_us = one.measurement->time.median_us});
  const plan::PathCosts paths(best.costs());
  const double best_us = best.best_sum_us();
  for (const TimedKernel& one : kernels) {
    model::Example example{.time = one.measurement->time.median_us, .group = group};
    example.high = search::in_fast_class(paths, one.candidate.variant, example.time, best_us);
    std::tie(example.first_half, example.second_half) = measure::half_medians(one.measurement->samples_us);
    set.add(plan::all_variants()[static_cast<std::size_t>(one.candidate.variant)], one.candidate.schedule,
            facts, device, example);
  }
}

/// Kernels by problem. Those that this version would not generate have no features: they are counted.
std::map<std::string, std::vector<TimedKernel>> kernels_by_problem(
    const std::vector<store::TuningRecord>& records, const lower::Target& target, int& refused) {
  std::map<std::string, std::vector<TimedKernel>> kernels;
  std::map<std::string, block::Problem> problems;
  for (const store::TuningRecord& record : records) {
    const std::string& key = record.key.problem;
    if (!problems.contains(key)) problems.emplace(key, block::Problem::parse(key));
    const auto& variant = plan::all_variants()[static_cast<std::size_t>(record.key.variant)];
    const lower::AnySchedule schedule = lower::parse_schedule(record.schedule, target);
    if (!lower::refuse(schedule, variant, problems.at(key), target).empty()) {
      ++refused;
      continue;
    }
    kernels[key].push_back({{record.key.variant, schedule}, &record.measurement});
  }
  return kernels;
}

/// True where it has rows in the set now.
bool add_environment(const store::EnvironmentRecord& environment, std::vector<store::TuningRecord> records,
                     const std::string& source, SegmentSource& result) {
  std::erase_if(records, [&](const store::TuningRecord& record) {
    return record.key.environment != environment.fingerprint;
  });
  if (records.empty()) return false;
  const auto comparable = comparable_times(std::move(records));
  const model::Device device = device_of(environment.fields);
  int refused = 0;
  const auto kernels = kernels_by_problem(comparable.rows, device.target, refused);
  const std::size_t before = result.set.size();
  for (const auto& [problem, timed] : kernels) {
    const std::string name = fmt::format("{} on {}", problem, environment.fingerprint.substr(0, 8));
    const std::size_t group = result.set.group(name);
    result.groups.push_back(group_of(problem, environment.fingerprint));
    add_group(timed, model::ProblemFacts(block::Problem::parse(problem)), device, group, result.set);
  }
  result.set.count_left_out(static_cast<int>(comparable.failed + comparable.other_units) + refused);
  base::note(fmt::format("{}: {} kernels of {}; {}, {} that this version would not generate", source,
                         result.set.size() - before, describe(environment), comparable.left_out(), refused));
  return result.set.size() > before;
}

}  // namespace

SegmentSource segment_source(const store::Contents& contents, const std::string& source) {
  SegmentSource result;
  // By fingerprint: the same rows make the same model, in whatever order they came into the database.
  std::vector<store::EnvironmentRecord> environments = contents.environments;
  std::sort(environments.begin(), environments.end(),
            [](const auto& a, const auto& b) { return a.fingerprint < b.fingerprint; });
  for (const store::EnvironmentRecord& environment : environments)
    if (add_environment(environment, contents.segments, source, result))
      result.environments.push_back(environment);
  return result;
}

}  // namespace fusetune::cli
