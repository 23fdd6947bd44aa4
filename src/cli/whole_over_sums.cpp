#include "cli/whole_over_sums.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "base/log.h"
#include "cli/comparable_times.h"
#include "search/plan_surrogate.h"
#include "search/random_source.h"

namespace fusetune::cli {
namespace {

using Sample = search::PlanSurrogate::Sample;

/// What a kernel takes alone, microseconds, by problem, variant and schedule.
using KernelTimes = std::map<std::tuple<std::string, int, std::string>, double>;

KernelTimes kernel_times(const store::Contents& contents, const std::string& source) {
  KernelTimes times;
  for (const store::TuningRecord& record : usable_times(contents.segments, source))
    times[{record.key.problem, record.key.variant, record.schedule}] = record.measurement.time.median_us;
  return times;
}

/// nullopt: one of its kernels has no time.
std::optional<double> sum_us(const store::PlanRecord& record, const plan::FusionPlan& plan,
                             const KernelTimes& times) {
  const std::vector<plan::SegmentVariant> variants = plan.variants();
  if (variants.size() != record.schedules.size()) return std::nullopt;
  double sum = 0;
  for (std::size_t i = 0; i < variants.size(); ++i) {
    const auto found = times.find({record.problem, plan::variant_index(variants[i]), record.schedules[i]});
    if (found == times.end()) return std::nullopt;
    sum += found->second;
  }
  return sum;
}

std::map<std::string, std::vector<Sample>> samples_by_problem(const store::Contents& contents,
                                                              const std::string& source) {
  const KernelTimes times = kernel_times(contents, source);
  std::map<std::string, std::vector<Sample>> samples;
  int without = 0;
  for (const store::PlanRecord& record : usable_times(contents.plans, source)) {
    if (record.sampled != store::Sampled::uniform) continue;
    const plan::FusionPlan plan = plan::FusionPlan::from_mask({record.mask});
    if (const auto sum = sum_us(record, plan, times))
      samples[record.problem].push_back({plan, std::log(record.measurement.time.median_us / *sum)});
    else
      ++without;
  }
  if (without > 0)
    base::note(fmt::format("{}: left out {} plans with a kernel that was not timed alone", source, without));
  return samples;
}

/// Of logarithms of ratios: what the table shows.
struct Spread {
  double low, middle, high, near;
};

Spread spread_of(std::vector<double> logs) {
  std::sort(logs.begin(), logs.end());
  const auto quantile = [&](double share) {
    return std::exp(
        logs[static_cast<std::size_t>(std::lround(share * static_cast<double>(logs.size() - 1)))]);
  };
  const auto near =
      std::count_if(logs.begin(), logs.end(), [](double one) { return std::abs(std::exp(one) - 1) <= 0.05; });
  return {quantile(0.05), quantile(0.5), quantile(0.95),
          static_cast<double>(near) / static_cast<double>(logs.size())};
}

/// What the model gets wrong of the plans that it was not fitted to; nullopt: there are none.
std::optional<Spread> left_by_model(std::vector<Sample> samples, std::uint64_t seed) {
  if (samples.size() <= kModelledPlans) return std::nullopt;
  search::RandomSource(seed).shuffle(samples);
  search::PlanSurrogate surrogate;
  surrogate.fit(std::span(samples).first(kModelledPlans));
  std::vector<double> logs;
  for (const Sample& one : std::span(samples).subspan(kModelledPlans))
    logs.push_back(one.log_time - surrogate.mean(one.plan));
  return spread_of(std::move(logs));
}

}  // namespace

report::Table whole_over_sums(const store::Contents& contents, const std::string& source,
                              std::uint64_t seed) {
  report::Table table({{"problem", "problem"},
                       {"plans", "plans"},
                       {"ratio_5", "whole/sum 5 %"},
                       {"ratio_50", "50 %"},
                       {"ratio_95", "95 %"},
                       {"near", "within 5 %"},
                       {"modelled_5", "modelled 5 %"},
                       {"modelled_50", "50 %"},
                       {"modelled_95", "95 %"},
                       {"modelled_near", "within 5 %"}});
  for (auto& [problem, samples] : samples_by_problem(contents, source)) {
    std::vector<double> logs;
    for (const Sample& one : samples) logs.push_back(one.log_time);
    const Spread plain = spread_of(std::move(logs));
    const auto left = left_by_model(samples, seed);
    const auto modelled = [&](double Spread::*figure) -> report::Cell {
      if (!left) return std::monostate();
      return (*left).*figure;
    };
    table.add({problem, static_cast<std::int64_t>(samples.size()), plain.low, plain.middle, plain.high,
               plain.near, modelled(&Spread::low), modelled(&Spread::middle), modelled(&Spread::high),
               modelled(&Spread::near)});
  }
  return table;
}

}  // namespace fusetune::cli
