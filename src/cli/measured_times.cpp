#include "cli/measured_times.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "cli/comparable_times.h"
#include "cli/recorded_file.h"
#include "store/tuning_store.h"

namespace fusetune::cli {
namespace {

constexpr const char* kCacheMode = "model";

template <typename Key>
void keep_fastest(std::map<Key, double>& times, Key key, double us) {
  const auto [place, is_new] = times.try_emplace(key, us);
  if (!is_new) place->second = std::min(place->second, us);
}

template <typename Key>
std::optional<double> found(const std::map<Key, double>& times, Key key) {
  const auto place = times.find(key);
  return place == times.end() ? std::nullopt : std::optional(place->second);
}

}  // namespace

MeasuredTimes::MeasuredTimes(const std::string& file, const std::string& environment,
                             const block::Problem& problem) {
  if (!std::filesystem::exists(file)) return;
  const RecordedFile recorded(file);
  const store::TuningStore store(recorded.database(), {.access = store::Access::look});
  store::Contents contents =
      store.contents({.problem = problem.key(), .environment = environment, .cache_mode = kCacheMode});
  if (contents.environments.empty()) return;
  environment_ = describe(
      choose_environment(contents.environments, environment, file, "choose one with --environment START"));
  for (const store::PlanRecord& plan : usable_times(std::move(contents.plans), file))
    keep_fastest(plans_, plan.mask, plan.measurement.time.median_us);
  for (const store::TuningRecord& segment : usable_times(std::move(contents.segments), file))
    keep_fastest(segments_, segment.key.variant, segment.measurement.time.median_us);
}

std::optional<double> MeasuredTimes::plan_us(const plan::FusionPlan& plan) const {
  return found(plans_, plan.canonical_mask().value);
}

std::optional<double> MeasuredTimes::segment_us(const plan::SegmentVariant& variant) const {
  return found(segments_, plan::variant_index(variant));
}

}  // namespace fusetune::cli
