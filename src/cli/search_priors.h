// What `guided` begins with before it has times of its own: kernels recorded on another device, and a cost
// model of kernels.
#pragma once

#include <string>

#include "block/problem.h"
#include "cli/model_options.h"
#include "cli/options.h"
#include "search/segment_prior.h"
#include "store/records.h"

namespace fusetune::cli {

struct PriorRequest {
  std::string records = {};      // a database or lines of `db export`; empty: none
  std::string environment = {};  // how the fingerprint of the device in it begins
  /// A file, kShippedModel or kNoModel; empty: kShippedModel on a CPU, none on a GPU, as it has seen none.
  std::string model = {};
};

/// --prior-from, --prior-environment
void declare_prior_records(Options& options, PriorRequest& request);

/// The recorded kernels of the problem first, then the model. `here`: where the search measures, whose own
/// records are no prior. Throws base::UsageError where the records have no kernels of the problem by exactly
/// one other device that is asked for, and for a model of plans; else as RecordedFile and
/// model::CostModel::load().
search::Priors make_priors(const PriorRequest& request, const block::Problem& problem,
                           const store::EnvironmentRecord& here, const std::string& cache_mode);

}  // namespace fusetune::cli
