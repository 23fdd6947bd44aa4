#include "cli/search_priors.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <variant>

#include "base/error.h"
#include "cli/comparable_times.h"
#include "cli/recorded_file.h"
#include "cli/recorded_segments.h"
#include "search/model_prior.h"
#include "search/recorded_prior.h"
#include "store/tuning_store.h"

namespace fusetune::cli {
namespace {

/// Kernels with a time, and the environments that have any, but those of `here`.
store::Contents of_other_devices(store::Contents contents, const store::EnvironmentRecord& here) {
  std::erase_if(contents.segments, [&](const store::TuningRecord& record) {
    return record.key.environment == here.fingerprint || record.measurement.outcome != measure::Outcome::ok;
  });
  std::erase_if(contents.environments, [&](const store::EnvironmentRecord& environment) {
    return std::none_of(contents.segments.begin(), contents.segments.end(), [&](const auto& record) {
      return record.key.environment == environment.fingerprint;
    });
  });
  return contents;
}

std::shared_ptr<const search::SegmentPrior> recorded_prior(const PriorRequest& request,
                                                           const block::Problem& problem,
                                                           const store::EnvironmentRecord& here,
                                                           const std::string& cache_mode) {
  const RecordedFile recorded(request.records);
  const store::TuningStore store(recorded.database(), {.access = store::Access::look});
  store::Contents contents = of_other_devices(
      store.contents(
          {.problem = problem.key(), .environment = request.environment, .cache_mode = cache_mode}),
      here);
  if (contents.environments.empty())
    throw base::UsageError(fmt::format(
        "--prior-from {}: it has no kernels of this problem that another device{} timed in cache mode {}; "
        "those of this one, {}, are no prior: --db answers from them",
        request.records,
        request.environment.empty() ? "" : ", its fingerprint beginning with " + request.environment + ",",
        cache_mode, here.fingerprint));
  const store::EnvironmentRecord there =
      choose_environment(contents.environments, "", "--prior-from " + request.records,
                         "--prior-environment START chooses one by its fingerprint");
  std::erase_if(contents.segments, [&](const store::TuningRecord& record) {
    return record.key.environment != there.fingerprint;
  });
  return std::make_shared<search::RecordedPrior>(fmt::format("{} of {}", request.records, describe(there)),
                                                 recorded_segments(contents, request.records),
                                                 device_of(there.fields).target);
}

}  // namespace

void declare_prior_records(Options& options, PriorRequest& request) {
  options.text("--prior-from", request.records, "FILE",
               "`guided` begins with this problem's kernels as another device timed them (another --isa, "
               "--threads or machine), if they rank the kernels timed first well; a database, or what `db "
               "export` wrote");
  options.text("--prior-environment", request.environment, "START",
               "of --prior-from: start of that device's fingerprint; default: the only one there is");
}

search::Priors make_priors(const PriorRequest& request, const block::Problem& problem,
                           const store::EnvironmentRecord& here, const std::string& cache_mode) {
  search::Priors priors;
  if (!request.records.empty()) priors.push_back(recorded_prior(request, problem, here, cache_mode));
  const model::Device device = device_of(here.fields);
  const bool gpu = std::holds_alternative<lower::GpuTarget>(device.target);
  const std::string model = !request.model.empty() ? request.model : gpu ? kNoModel : kShippedModel;
  if (model != kNoModel)
    priors.push_back(std::make_shared<search::ModelPrior>(model, load_segment_model(model), problem, device));
  return priors;
}

}  // namespace fusetune::cli
