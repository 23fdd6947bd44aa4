#include "cli/model_options.h"

#include <fmt/core.h>

#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "base/number.h"

namespace fusetune::cli {

model::CostModel load_model(const std::string& file) {
  if (file == kShippedModel) return model::CostModel::shipped();
  std::error_code unknown;  // what is wrong then, reading it says
  if (!std::filesystem::exists(file, unknown) && !unknown)
    throw base::EnvironmentError(fmt::format(
        "there is no cost model {}: fit one with `fusetune train`, name another with --cost-model, "
        "or take the one inside the program with --cost-model shipped",
        file));
  return model::CostModel::load(file);
}

model::CostModel load_segment_model(const std::string& file) {
  model::CostModel loaded =
      file == kShippedModel ? model::CostModel::shipped_for_segments() : model::CostModel::load(file);
  if (loaded.info().schema != model::Schema::segment)
    throw base::UsageError("--cost-model " + file +
                           ": guided begins with a model of kernels, this one is of plans; fusetune train "
                           "--segments fits one");
  return loaded;
}

void ModelOptions::declare(Options& options) {
  options.unsigned_integer("--seed", options_.seed, "N", "the same seed and data give the same model");
  options.integer("--rounds", options_.rounds, "N", "trees of each of the two boosters", 1, 100'000);
  options.number("--high-fraction", options_.high_fraction, "X",
                 "share of a problem's plans that count as High Performance, above 0 and at most 1");
}

model::TrainOptions ModelOptions::options() const {
  if (!(options_.high_fraction > 0 && options_.high_fraction <= 1))
    throw base::UsageError("--high-fraction " + base::format_shortest(options_.high_fraction) +
                           ": expected a number above 0 and at most 1");
  return options_;
}

}  // namespace fusetune::cli
